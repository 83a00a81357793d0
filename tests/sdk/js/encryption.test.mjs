// Client-side encryption: keys in the database, policies in containers, ciphertext in items.

import assert from "node:assert/strict";
import test from "node:test";
import { EncryptionQueryBuilder } from "@azure/cosmos";
import { client, connect, freshDatabase, name, refused } from "./support.mjs";

const ALGORITHM = "AEAD_AES_256_CBC_HMAC_SHA256";

/** A key store that wraps by adding a number to each byte; the name of the key is the number. */
const store = {
  encryptionKeyResolverName: "test-store",
  async wrapKey(id, _algorithm, bytes) {
    return Buffer.from(bytes.map((byte) => (byte + Number(id)) & 255));
  },
  async unwrapKey(id, _algorithm, bytes) {
    return Buffer.from(bytes.map((byte) => (byte - Number(id)) & 255));
  },
};

function metadata(value) {
  return { type: "test-store", name: `key ${value}`, value, algorithm: "RSA-OAEP" };
}

function encrypting(options = {}) {
  const clientEncryptionOptions = { keyEncryptionKeyResolver: store };
  return connect({ clientEncryptionOptions, ...options });
}

function included(path, encryptionType = "Deterministic") {
  return { path, clientEncryptionKeyId: "key", encryptionType, encryptionAlgorithm: ALGORITHM };
}

async function freshEncrypted(t, paths, policyFormatVersion = 2) {
  const database = await freshDatabase(t, {}, encrypting());
  await database.createClientEncryptionKey("key", ALGORITHM, metadata("7"));
  const clientEncryptionPolicy = { includedPaths: paths, policyFormatVersion };
  const { container } = await database.containers.create({
    id: "c",
    partitionKey: { paths: ["/pk"] },
    clientEncryptionPolicy,
  });
  return { database, container };
}

test("keys are created, read and wrapped again", async (t) => {
  const database = await freshDatabase(t, {}, encrypting());
  const made = await database.createClientEncryptionKey("key", ALGORITHM, metadata("7"));
  assert.equal(made.statusCode, 201);
  await refused(database.createClientEncryptionKey("key", ALGORITHM, metadata("8")), 409);
  const read = await database.readClientEncryptionKey("key");
  assert.deepEqual(read.clientEncryptionKeyProperties, made.clientEncryptionKeyProperties);
  const again = await database.rewrapClientEncryptionKey("key", metadata("9"));
  const properties = again.clientEncryptionKeyProperties;
  assert.equal(again.statusCode, 200);
  assert.deepEqual(properties.encryptionKeyWrapMetadata, metadata("9"));
  assert.notEqual(properties.etag, made.clientEncryptionKeyProperties.etag);
  await refused(database.readClientEncryptionKey("none"), 404);
});

test("items are encrypted for the server and plain for the client", async (t) => {
  const paths = ["/id", "/pk", "/name", "/list"].map((path) => included(path));
  const { database, container } = await freshEncrypted(t, [
    ...paths,
    included("/secret", "Randomized"),
  ]);
  const item = { id: "one", pk: "a", name: "Ada", list: [1, null, "x"], secret: true, open: 5 };
  const created = await container.items.create(item);
  assert.equal(created.statusCode, 201);
  const { resource } = await container.item("one", "a").read();
  for (const [member, value] of Object.entries(item)) {
    assert.deepEqual(resource[member], value);
  }

  const { resources: stored } = await client
    .database(database.id)
    .container("c")
    .items.readAll()
    .fetchAll();
  assert.equal(stored.length, 1);
  assert.equal(stored[0].open, 5);
  assert.equal(stored[0].list[1], null);
  for (const text of [stored[0].id, stored[0].pk, stored[0].name, stored[0].secret]) {
    assert.match(text, /^[A-Za-z0-9+/_-]+=*$/);
    assert.ok(!Object.values(item).includes(text));
  }

  const query = new EncryptionQueryBuilder("SELECT * FROM c WHERE c.name = @name");
  query.addParameter("@name", "Ada", "/name");
  const iterator = await container.items.getEncryptionQueryIterator(query);
  const { resources } = await iterator.fetchAll();
  assert.deepEqual(
    resources.map(({ id, name: found }) => [id, found]),
    [["one", "Ada"]],
  );

  const patched = await container
    .item("one", "a")
    .patch([{ op: "set", path: "/name", value: "Grace" }]);
  assert.equal(patched.resource.name, "Grace");
  assert.equal((await container.item("one", "a").delete()).statusCode, 204);
});

test("a policy names keys that exist, and stays", async (t) => {
  const { database, container } = await freshEncrypted(t, [included("/name")], 1);
  const { resource } = await container.read();
  assert.deepEqual(resource.clientEncryptionPolicy, {
    includedPaths: [included("/name")],
    policyFormatVersion: 1,
  });
  const unknown = { ...included("/name"), clientEncryptionKeyId: "none" };
  const definition = { id: "d", partitionKey: { paths: ["/pk"] } };
  await refused(
    database.containers.create({
      ...definition,
      clientEncryptionPolicy: { includedPaths: [unknown], policyFormatVersion: 1 },
    }),
    400,
    { text: "ClientEncryptionKey with id '[none]' does not exist." },
  );
});

test("a container that was created again asks for a retry", async (t) => {
  const { database, container } = await freshEncrypted(t, [included("/name")]);
  await container.items.create({ id: "1", pk: "a", name: "Ada" });
  const plain = client.database(database.id);
  const { resource } = await plain.container("c").read();
  await plain.container("c").delete();
  await plain.containers.create({
    id: "c",
    partitionKey: resource.partitionKey,
    clientEncryptionPolicy: { includedPaths: [included("/other")], policyFormatVersion: 2 },
  });
  await assert.rejects(container.items.create({ id: "2", pk: "a", name: "Ada" }));
  const { resources } = await plain.container("c").items.readAll().fetchAll();
  assert.deepEqual(resources, []);
});

test("a resource token does not reach keys", async (t) => {
  const { database } = await freshEncrypted(t, [included("/name")]);
  const { user } = await client.database(database.id).users.create({ id: "u" });
  const link = `dbs/${database.id}/colls/c`;
  const { resource } = await user.permissions.create({
    id: name(),
    permissionMode: "All",
    resource: link,
  });
  // By the id of the database: for other paths than those of items this client looks for ids.
  const tokens = { [database.id]: resource._token };
  const confined = encrypting({ key: undefined, resourceTokens: tokens }).database(database.id);
  await refused(confined.createClientEncryptionKey("k2", ALGORITHM, metadata("7")), 403);
});
