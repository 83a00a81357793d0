// The account, and who may read it.

import assert from "node:assert/strict";
import test from "node:test";
import { CosmosClient } from "@azure/cosmos";
import {
  UUID,
  client,
  connect,
  endpoint,
  freshContainer,
  freshDatabase,
  key,
  name,
  refused,
  watched,
} from "./support.mjs";

const WRONG_KEY = Buffer.alloc(64, 7).toString("base64");

test("the account can be read", async () => {
  const { resource, statusCode, headers } = await client.getDatabaseAccount();
  assert.equal(statusCode, 200);
  assert.equal(resource.consistencyPolicy, "Session");
  assert.equal(resource.enableMultipleWritableLocations, false);
  assert.match(headers["x-ms-activity-id"], UUID);
});

test("all traffic stays at the endpoint the client was given", async () => {
  const { origin } = new URL(endpoint);
  assert.equal(new URL(await client.getWriteEndpoint()).origin, origin);
  assert.equal(new URL(await client.getReadEndpoint()).origin, origin);
});

test("a connection string is enough", async (t) => {
  const other = new CosmosClient(`AccountEndpoint=${endpoint};AccountKey=${key};`);
  t.after(() => other.dispose());
  assert.equal((await other.getDatabaseAccount()).statusCode, 200);
});

test("a client without endpoint discovery works", async (t) => {
  const { client: fresh, sent } = watched({ connectionPolicy: { enableEndpointDiscovery: false } });
  await freshDatabase(t, {}, fresh);
  assert.deepEqual(
    sent.map(({ path }) => path),
    ["/dbs"],
  );
});

const calls = [
  ["read the account", (by) => by.getDatabaseAccount()],
  ["list databases", (by) => by.databases.readAll().fetchAll()],
  ["create a database", (by) => by.databases.create({ id: name() })],
  ["read a container", (by, container) => container.read()],
  ["create an item", (by, container) => container.items.create({ id: "1", pk: "a" })],
  ["query", (by, container) => container.items.query("SELECT * FROM c").fetchAll()],
  ["list offers", (by) => by.offers.readAll().fetchAll()],
];
for (const [title, call] of calls) {
  test(`with the wrong key one cannot ${title}`, async (t) => {
    const { id, database } = await freshContainer(t);
    const stranger = connect({ key: WRONG_KEY });
    const container = stranger.database(database.id).container(id);
    await refused(call(stranger, container), 401, {
      text: "The input authorization token can't serve the request.",
    });
  });
}

test("the wrong key does not tell what exists", async () => {
  await refused(connect({ key: WRONG_KEY }).database(name()).read(), 401);
});
