// Consistency: session tokens as this client keeps and sends them.

import assert from "node:assert/strict";
import test from "node:test";
import { connect, freshContainer, freshDatabase, name, refused, watched } from "./support.mjs";

const TOKEN = "x-ms-session-token";
const lsn = ({ headers }) => Number(headers[TOKEN].split("#")[1]);

test("a session client sends the token of its last write", async (t) => {
  const { client, sent } = watched({ consistencyLevel: "Session" });
  const container = await freshContainer(t, {}, client);
  const { headers, item } = await container.items.create({ id: "1", pk: "a" });
  const { statusCode } = await item.read();
  assert.equal(statusCode, 200);
  assert.equal(sent.at(-1).headers["x-ms-consistency-level"], "Session");
  assert.equal(sent.at(-1).headers[TOKEN], headers[TOKEN]);
  await container.items.readAll().fetchAll();
  assert.equal(sent.at(-1).headers[TOKEN], headers[TOKEN]);
});

for (const id of ["plain", "two words", "percent%20", "été-日本"]) {
  test(`tokens are kept for a container named '${id}'`, async (t) => {
    const { client, sent } = watched({ consistencyLevel: "Session" });
    const database = await freshDatabase(t, { id: `${id} ${name()}` }, client);
    const { container } = await database.containers.create({ id, partitionKey: "/pk" });
    const { headers, item } = await container.items.create({ id: "1", pk: "a" });
    await item.read();
    assert.equal(sent.at(-1).headers[TOKEN], headers[TOKEN]);
  });
}

test("a client of the account's default level sends no token", async (t) => {
  const { client, sent } = watched();
  const container = await freshContainer(t, {}, client);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  await item.read();
  assert.ok(!(TOKEN in sent.at(-1).headers));
  assert.ok(!("x-ms-consistency-level" in sent.at(-1).headers));
});

test("every write moves the token, no read does", async (t) => {
  const container = await freshContainer(t);
  const writes = [
    () => container.items.create({ id: "1", pk: "a" }),
    () => container.items.create({ id: "2", pk: "b" }),
    () => container.items.upsert({ id: "1", pk: "a" }),
    () => container.items.upsert({ id: "3", pk: "c" }),
    () => container.item("1", "a").replace({ id: "1", pk: "a" }),
    () => container.item("3", "c").delete(),
  ];
  let last = 0;
  for (const write of writes) {
    const here = lsn(await write());
    assert.ok(here > last);
    assert.equal(lsn(await container.item("1", "a").read()), here);
    assert.equal(lsn(await container.items.readAll().fetchNext()), here);
    last = here;
  }
});

test("failures carry the token too", async (t) => {
  const container = await freshContainer(t);
  const { headers, item } = await container.items.create({ id: "1", pk: "a" });
  const stale = { accessCondition: { type: "IfMatch", condition: "stale" } };
  const failures = [
    await refused(container.items.create({ id: "1", pk: "a" }), 409),
    await refused(item.replace({ id: "1", pk: "a" }, stale), 412),
    await refused(container.item("2", "a").delete(), 404),
    await container.item("2", "a").read(),
  ];
  for (const failure of failures) {
    assert.equal(failure.headers[TOKEN], headers[TOKEN]);
    assert.equal(failure.headers["x-ms-alt-content-path"], headers["x-ms-alt-content-path"]);
    // Not after a read: the client would record the token of a range it did not write to.
    const path = failure === failures[3] ? undefined : headers["x-ms-content-path"];
    assert.equal(failure.headers["x-ms-content-path"], path);
    assert.equal(failure.headers["x-ms-documentdb-partitionkeyrangeid"], "0");
  }
});

test("a token of another client's write opens the read", async (t) => {
  const container = await freshContainer(t);
  const { headers } = await container.items.create({ id: "1", pk: "a" });
  const other = connect({ consistencyLevel: "Session" }).database(container.database.id).container("c");
  const { statusCode } = await other.item("1", "a").read({ sessionToken: headers[TOKEN] });
  assert.equal(statusCode, 200);
});

test("a token from the future is not served", async (t) => {
  // With endpoint discovery this client would try again without the token.
  const client = connect({ connectionPolicy: { enableEndpointDiscovery: false } });
  const container = await freshContainer(t, {}, client);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  const sessionToken = "0:-1#1000000";
  const { statusCode, substatus, resource } = await item.read({ sessionToken });
  assert.deepEqual([statusCode, substatus, resource], [404, 1002, undefined]);
  const text = "The read session is not available for the input session token.";
  await refused(container.items.query("SELECT * FROM c", { sessionToken }).fetchAll(), 404, {
    sub: 1002,
    text,
  });
});

test("a client that sees a token refused goes on without it", async (t) => {
  const { client, sent } = watched();
  const container = await freshContainer(t, {}, client);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  assert.equal((await item.read({ sessionToken: "0:-1#1000000" })).statusCode, 200);
  assert.deepEqual(
    sent.slice(-2).map(({ status }) => status),
    [404, 200],
  );
});

test("a token that is none is refused", async (t) => {
  const container = await freshContainer(t);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  await refused(item.read({ sessionToken: "nonsense" }), 400);
});

test("each range has its own token", async (t) => {
  const { client, sent } = watched({ consistencyLevel: "Session" });
  const container = await freshContainer(t, { throughput: 18000 }, client);
  const keys = Array.from({ length: 30 }, (_, n) => `key-${n}`);
  for (const pk of keys) {
    await container.items.create({ id: "1", pk });
  }
  for (const pk of keys) {
    assert.equal((await container.item("1", pk).read()).statusCode, 200);
    // The first answer counts: after a refusal the client asks again without its token.
    const { status, headers } = sent.at(-1);
    assert.equal(status, 200);
    assert.ok(headers[TOKEN]?.includes(","), "the read was refused and repeated");
  }
  assert.equal((await container.items.readAll().fetchAll()).resources.length, 30);
  assert.ok(sent.at(-1).headers[TOKEN].includes(","));
});

test("a read with a wrong key adds no token of another range", async (t) => {
  const { client, sent } = watched({ consistencyLevel: "Session" });
  const container = await freshContainer(t, { throughput: 18000 }, client);
  const { headers } = await container.items.create({ id: "1", pk: "a" });
  for (let n = 0; n < 10; n += 1) {
    assert.equal((await container.item("1", `key-${n}`).read()).statusCode, 404);
  }
  await container.item("1", "a").read();
  assert.equal(sent.at(-1).headers[TOKEN], headers[TOKEN]);
});

test("a container that was made again is read by the client that knew the old one", async (t) => {
  const container = await freshContainer(t, {}, connect({ consistencyLevel: "Session" }));
  for (const id of ["1", "2", "3"]) {
    await container.items.create({ id, pk: "a" });
  }
  await container.delete();
  await container.database.containers.create({ id: "c", partitionKey: "/pk" });
  assert.equal((await container.item("1", "a").read()).statusCode, 404);
  assert.equal((await container.items.create({ id: "1", pk: "a" })).statusCode, 201);
  assert.equal((await container.item("1", "a").read()).statusCode, 200);
  assert.equal((await container.items.readAll().fetchAll()).resources.length, 1);
});

for (const consistencyLevel of ["Session", "ConsistentPrefix", "Eventual"]) {
  test(`${consistencyLevel} reads its own writes`, async (t) => {
    const container = await freshContainer(t, {}, connect({ consistencyLevel }));
    const { item } = await container.items.create({ id: "1", pk: "a" });
    assert.equal((await item.read()).statusCode, 200);
    assert.equal((await container.items.readAll().fetchAll()).resources.length, 1);
  });
}

for (const consistencyLevel of ["Strong", "BoundedStaleness"]) {
  test(`${consistencyLevel} is more than the account has`, async (t) => {
    const container = await freshContainer(t);
    await container.items.create({ id: "1", pk: "a" });
    const asked = connect({ consistencyLevel }).database(container.database.id).container("c");
    await refused(asked.item("1", "a").read(), 400);
    await refused(asked.items.readAll().fetchAll(), 400);
  });
}
