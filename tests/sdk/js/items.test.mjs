// Items: create, read, replace, upsert, delete; preconditions, conflicts, what is kept exactly.

import assert from "node:assert/strict";
import test from "node:test";
import { UUID, answer, freshContainer, plain, refused } from "./support.mjs";

const STALE = '"00000000-0000-0000-0000-000000000000"';
const ifMatch = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
const ifNoneMatch = (condition) => ({ accessCondition: { type: "IfNoneMatch", condition } });

test("create answers with the item and where it is", async (t) => {
  const container = await freshContainer(t);
  const owner = (await container.read()).resource;
  const response = await container.items.create({ id: "1", pk: "a", n: 1 });
  const { resource, statusCode, headers, etag, requestCharge, activityId, item } = response;
  assert.equal(statusCode, 201);
  assert.deepEqual(plain(resource), { id: "1", pk: "a", n: 1 });
  assert.equal(resource._self, `${owner._self}docs/${resource._rid}/`);
  assert.equal(resource._attachments, "attachments/");
  assert.ok(Number.isInteger(resource._ts));
  assert.equal(etag, resource._etag);
  assert.match(etag, /^"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"$/);
  assert.equal(etag.slice(25, 33), resource._ts.toString(16).padStart(8, "0"));
  const bytes = Buffer.from(resource._rid.replaceAll("-", "/"), "base64");
  assert.equal(bytes.length, 16);
  assert.equal(bytes[15] >> 4, 0);
  assert.equal(headers["content-type"], "application/json");
  assert.match(headers["x-ms-session-token"], /^0:-1#\d+$/);
  assert.equal(headers["x-ms-alt-content-path"], `dbs/${container.database.id}/colls/c`);
  assert.equal(headers["x-ms-content-path"], owner._rid);
  assert.equal(headers["x-ms-documentdb-partitionkeyrangeid"], "0");
  assert.ok(requestCharge > 0);
  assert.match(activityId, UUID);
  assert.equal(item.id, "1");
});

test("an item without an id gets one from the client", async (t) => {
  const container = await freshContainer(t);
  const { resource, item } = await container.items.create({ pk: "a" });
  assert.match(resource.id, UUID);
  assert.equal((await item.read()).resource.id, resource.id);
});

for (const [title, body] of [
  ["missing", { pk: "a" }],
  ["empty", { id: "", pk: "a" }],
  ["null", { id: null, pk: "a" }],
  ["a number", { id: 0, pk: "a" }],
  ["a boolean", { id: false, pk: "a" }],
]) {
  test(`an id that is ${title} is refused`, async (t) => {
    const container = await freshContainer(t);
    const options = { disableAutomaticIdGeneration: true };
    await refused(container.items.create({ ...body }, options), 400);
    await refused(container.items.upsert({ ...body }, options), 400);
    assert.deepEqual((await container.items.readAll().fetchAll()).resources, []);
  });
}

test("read gives what create gave", async (t) => {
  const container = await freshContainer(t);
  const created = await container.items.create({ id: "1", pk: "a", deep: { er: [1, { x: null }] } });
  const { resource, statusCode, etag, requestCharge } = await container.item("1", "a").read();
  assert.equal(statusCode, 200);
  assert.deepEqual(resource, created.resource);
  assert.equal(etag, created.etag);
  assert.ok(requestCharge > 0);
});

test("a read that finds nothing is no error", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a" });
  for (const item of [container.item("2", "a"), container.item("1", "b")]) {
    const { resource, statusCode, substatus, requestCharge } = await item.read();
    assert.equal(resource, undefined);
    assert.equal(statusCode, 404);
    assert.equal(substatus ?? 0, 0);
    assert.ok(requestCharge > 0);
  }
});

test("replace and delete of nothing fail", async (t) => {
  const container = await freshContainer(t);
  await refused(container.item("1", "a").replace({ id: "1", pk: "a" }), 404);
  await refused(container.item("1", "a").delete(), 404);
});

test("replace puts another item in its place", async (t) => {
  const container = await freshContainer(t);
  const { item, resource: before } = await container.items.create({ id: "1", pk: "a", old: true });
  const { resource: after, statusCode, etag } = await item.replace({ id: "1", pk: "a", fresh: true });
  assert.equal(statusCode, 200);
  assert.deepEqual(plain(after), { id: "1", pk: "a", fresh: true });
  assert.equal(after._rid, before._rid);
  assert.equal(after._self, before._self);
  assert.notEqual(after._etag, before._etag);
  assert.equal(etag, after._etag);
  assert.deepEqual((await item.read()).resource, after);
});

test("replace may change the id", async (t) => {
  const container = await freshContainer(t);
  const { item, resource } = await container.items.create({ id: "1", pk: "a" });
  const { statusCode, resource: after } = await item.replace({ id: "2", pk: "a" });
  assert.equal(statusCode, 200);
  assert.equal(after.id, "2");
  assert.equal(after._rid, resource._rid);
  assert.equal((await container.item("1", "a").read()).statusCode, 404);
  assert.deepEqual((await container.item("2", "a").read()).resource, after);
});

test("replace cannot take another item's id", async (t) => {
  const container = await freshContainer(t);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  await container.items.create({ id: "2", pk: "a" });
  await refused(item.replace({ id: "2", pk: "a" }), 409);
});

test("replace cannot move to another partition", async (t) => {
  const container = await freshContainer(t);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  const text = "Partition key provided either doesn't correspond to definition in the collection";
  await refused(item.replace({ id: "1", pk: "b" }), 400, { sub: 1001, text });
  assert.equal((await item.read()).resource.pk, "a");
});

test("upsert creates, then replaces", async (t) => {
  const container = await freshContainer(t);
  const first = await container.items.upsert({ id: "1", pk: "a", n: 1 });
  const second = await container.items.upsert({ id: "1", pk: "a", n: 2 });
  assert.deepEqual([first.statusCode, second.statusCode], [201, 200]);
  assert.deepEqual(plain(second.resource), { id: "1", pk: "a", n: 2 });
  assert.equal(second.resource._rid, first.resource._rid);
  assert.notEqual(second.etag, first.etag);
  assert.equal((await container.items.readAll().fetchAll()).resources.length, 1);
});

test("delete answers with nothing, once", async (t) => {
  const container = await freshContainer(t);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  const { statusCode, resource, requestCharge } = await item.delete();
  assert.equal(statusCode, 204);
  assert.equal(resource, null);
  assert.ok(requestCharge > 0);
  assert.equal((await item.read()).statusCode, 404);
  await refused(item.delete(), 404);
});

test("a deleted item can be made again", async (t) => {
  const container = await freshContainer(t);
  const first = await container.items.create({ id: "1", pk: "a" });
  await first.item.delete();
  const second = await container.items.create({ id: "1", pk: "a" });
  assert.equal(second.statusCode, 201);
  assert.notEqual(second.resource._rid, first.resource._rid);
});

test("an id is taken once in a partition", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a" });
  const text = "Entity with the specified id already exists in the system.";
  await refused(container.items.create({ id: "1", pk: "a" }), 409, { text });
  assert.equal((await container.items.create({ id: "1", pk: "b" })).statusCode, 201);
});

test("system properties are the server's, other underscores the user's", async (t) => {
  const container = await freshContainer(t);
  const { item, resource } = await container.items.create({
    id: "1",
    pk: "a",
    _rid: "mine",
    _self: "mine",
    _etag: "mine",
    _ts: 1,
    _attachments: "mine",
    _own: "kept",
    __own: { _rid: "kept" },
  });
  assert.equal(resource._own, "kept");
  assert.deepEqual(resource.__own, { _rid: "kept" });
  for (const property of ["_rid", "_self", "_etag", "_attachments"]) {
    assert.notEqual(resource[property], "mine");
  }
  assert.notEqual(resource._ts, 1);
  assert.deepEqual((await item.read()).resource, resource);
});

test("what was read can be sent back", async (t) => {
  const container = await freshContainer(t);
  const { item, resource } = await container.items.create({ id: "1", pk: "a", n: 1 });
  const { resource: after } = await item.replace({ ...resource, n: 2 });
  assert.deepEqual(Object.keys(after), Object.keys(resource));
  assert.equal(after.n, 2);
});

test("a write with the current etag succeeds, with another it does not", async (t) => {
  const container = await freshContainer(t);
  const { item, etag } = await container.items.create({ id: "1", pk: "a", n: 1 });
  const body = { id: "1", pk: "a", n: 2 };
  await refused(item.replace(body, ifMatch(STALE)), 412);
  await refused(item.delete(ifMatch(STALE)), 412);
  await refused(container.items.upsert(body, ifMatch(STALE)), 412);
  assert.equal((await item.read()).resource.n, 1);
  const { etag: second } = await item.replace(body, ifMatch(etag));
  await refused(item.replace(body, ifMatch(etag)), 412);
  const { etag: third } = await container.items.upsert(body, ifMatch(second));
  await refused(item.delete(ifMatch(second)), 412);
  assert.equal((await item.delete(ifMatch(third))).statusCode, 204);
});

test("any etag will do for a star", async (t) => {
  const container = await freshContainer(t);
  const { item } = await container.items.create({ id: "1", pk: "a" });
  assert.equal((await item.replace({ id: "1", pk: "a" }, ifMatch("*"))).statusCode, 200);
  assert.equal((await item.delete(ifMatch("*"))).statusCode, 204);
});

test("what is missing is missing, whatever etag is expected", async (t) => {
  const container = await freshContainer(t);
  const item = container.item("1", "a");
  await refused(item.replace({ id: "1", pk: "a" }, ifMatch(STALE)), 404);
  await refused(item.delete(ifMatch(STALE)), 404);
  const { statusCode } = await container.items.upsert({ id: "1", pk: "a" }, ifMatch(STALE));
  assert.equal(statusCode, 201);
});

test("a read of what the client has costs no body", async (t) => {
  const container = await freshContainer(t);
  const { item, etag } = await container.items.create({ id: "1", pk: "a" });
  const same = await item.read(ifNoneMatch(etag));
  assert.equal(same.statusCode, 304);
  assert.equal(same.resource, null);
  assert.equal(same.etag, etag);
  const { etag: changed } = await item.replace({ id: "1", pk: "a", n: 1 });
  const other = await item.read(ifNoneMatch(etag));
  assert.equal(other.statusCode, 200);
  assert.equal(other.resource._etag, changed);
});

test("writes do not look at If-None-Match", async (t) => {
  const container = await freshContainer(t);
  const { item, etag } = await container.items.create({ id: "1", pk: "a" });
  assert.equal((await item.replace({ id: "1", pk: "a" }, ifNoneMatch(etag))).statusCode, 200);
  assert.equal((await item.delete(ifNoneMatch(STALE))).statusCode, 204);
});

test("unique keys hold within a partition", async (t) => {
  const uniqueKeyPolicy = { uniqueKeys: [{ paths: ["/email"] }, { paths: ["/name/first", "/name/last"] }] };
  const container = await freshContainer(t, { uniqueKeyPolicy });
  const ada = { pk: "a", email: "ada@example.com", name: { first: "Ada", last: "L" } };
  const bob = { pk: "a", email: "bob@example.com", name: { first: "Bob", last: "L" } };
  await container.items.create({ id: "ada", ...ada });
  const { item } = await container.items.create({ id: "bob", ...bob });
  const text = "Unique index constraint violation.";
  await refused(container.items.create({ id: "3", ...ada, name: { first: "C", last: "C" } }), 409, { text });
  await refused(container.items.create({ id: "3", ...ada, email: "c@example.com" }), 409, { text });
  await refused(container.items.upsert({ id: "3", ...ada }), 409, { text });
  await refused(item.replace({ id: "bob", ...bob, email: ada.email }), 409, { text });
  assert.equal((await item.replace({ id: "bob", ...bob, n: 1 })).statusCode, 200);
  assert.equal((await container.items.create({ id: "ada", ...ada, pk: "b" })).statusCode, 201);
  assert.equal((await container.item("ada", "a").delete()).statusCode, 204);
  assert.equal((await container.items.create({ id: "3", ...ada })).statusCode, 201);
});

test("two items without the unique property collide", async (t) => {
  const container = await freshContainer(t, { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } });
  await container.items.create({ id: "1", pk: "a" });
  await refused(container.items.create({ id: "2", pk: "a" }), 409);
  await refused(container.items.create({ id: "3", pk: "a", email: null }), 409);
  assert.equal((await container.items.create({ id: "2", pk: "b" })).statusCode, 201);
});

const NUMBERS = [
  ...[0, 1, -1, 0.1, -0.5, 0.30000000000000004, 1e-7, 5e-324, Number.EPSILON],
  ...[1.5e300, Number.MAX_VALUE, -Number.MAX_VALUE, 1e20, 1e21, 1e22, 123456789012345680000],
  ...[2 ** 31, 2 ** 32, 2 ** 53 - 1, 1 - 2 ** 53, 2 ** 53, 2 ** 53 + 2, 2 ** 62, 2 ** 100],
  ...[2 ** 63, -(2 ** 63), 2 ** 63 + 2048, 2 ** 64 - 2048, 2 ** 64],
];

test("numbers come back as they went in", async (t) => {
  const container = await freshContainer(t);
  const { item, resource } = await container.items.create({ id: "1", pk: "a", numbers: NUMBERS });
  assert.deepEqual(resource.numbers, NUMBERS);
  assert.deepEqual((await item.read()).resource.numbers, NUMBERS);
  assert.deepEqual(await answer(container, "SELECT VALUE n FROM c JOIN n IN c.numbers"), NUMBERS);
});

for (const number of [2 ** 53 - 1, 2 ** 53, 2 ** 63, 2 ** 64, 1e21, -(2 ** 63), 5e-324]) {
  test(`a query finds ${number}`, async (t) => {
    const container = await freshContainer(t);
    await container.items.create({ id: "1", pk: "a", number });
    await container.items.create({ id: "2", pk: "a", number: number / 2 });
    const query = "SELECT VALUE c.id FROM c WHERE c.number = @number";
    assert.deepEqual(await answer(container, query, { number }), ["1"]);
  });
}

const VALUES = {
  texts: [
    "",
    " ",
    "a\u0000b",
    "\u2028\u2029",
    "\ufeff",
    "é",
    "e\u0301",
    "日本語",
    "😀",
    '\\"/\b\f\n\r\t',
    "</p>",
  ],
  empties: [[], {}, [[]], [{}], null, "", false, 0],
  names: { "": 1, " ": 2, "a.b": 3, "a/b": 4, é: 5, $type: 6, 10: 7, "@": 8, '"': 9 },
  deep: JSON.parse("[".repeat(60) + "]".repeat(60)),
  many: Array.from({ length: 5000 }, (_, index) => ({ index, odd: index % 2 === 1 })),
};
for (const [title, value] of Object.entries(VALUES)) {
  test(`${title} come back as they went in`, async (t) => {
    const container = await freshContainer(t);
    const { item, resource } = await container.items.create({ id: "1", pk: "a", value });
    assert.deepEqual(resource.value, value);
    assert.deepEqual((await item.read()).resource.value, value);
    assert.deepEqual(await answer(container, "SELECT VALUE c['value'] FROM c"), [value]);
  });
}

const TOO_LARGE = { text: "Request size is too large" };

test("an item just below 2 MB is kept", async (t) => {
  const container = await freshContainer(t);
  const text = "x".repeat(2 * 1024 * 1024 - 2048);
  const { item, statusCode } = await container.items.create({ id: "1", pk: "a", text });
  assert.equal(statusCode, 201);
  assert.equal((await item.read()).resource.text, text);
});

for (const [title, text] of [
  ["just above 2 MB", "x".repeat(2 * 1024 * 1024)],
  ["of 3 MB", "x".repeat(3 * 1024 * 1024)],
  ["of 8 MB", "x".repeat(8 * 1024 * 1024)],
  ["that is 2 MB in bytes, not in characters", "é".repeat(1024 * 1024)],
]) {
  test(`an item ${title} is refused, and the client can go on`, async (t) => {
    const container = await freshContainer(t);
    await refused(container.items.create({ id: "1", pk: "a", text }), 413, TOO_LARGE);
    const { item } = await container.items.create({ id: "1", pk: "a" });
    await refused(item.replace({ id: "1", pk: "a", text }), 413, TOO_LARGE);
    await refused(container.items.upsert({ id: "1", pk: "a", text }), 413, TOO_LARGE);
    assert.deepEqual(plain((await item.read()).resource), { id: "1", pk: "a" });
  });
}

for (const ttl of [0, -2, 1.5, "10", null, 2147483648]) {
  test(`a ttl of ${JSON.stringify(ttl)} is refused`, async (t) => {
    const container = await freshContainer(t, { defaultTtl: -1 });
    await refused(container.items.create({ id: "1", pk: "a", ttl }), 400);
  });
}

for (const ttl of [-1, 1000, 2147483647]) {
  test(`a ttl of ${ttl} is kept`, async (t) => {
    const container = await freshContainer(t, { defaultTtl: -1 });
    const { item } = await container.items.create({ id: "1", pk: "a", ttl });
    assert.equal((await item.read()).resource.ttl, ttl);
  });
}

test("a client that wants no body gets none", async (t) => {
  const container = await freshContainer(t);
  const { item, etag } = await container.items.create({ id: "1", pk: "a" });
  const minimal = { initialHeaders: { Prefer: "return=minimal" } };
  const after = await item.replace({ id: "1", pk: "a", n: 1 }, minimal);
  assert.equal(after.statusCode, 200);
  assert.equal(after.resource, null);
  assert.notEqual(after.etag, etag);
  assert.ok(after.requestCharge > 0);
  assert.equal((await item.read()).resource.n, 1);
});

test("an indexing directive is accepted", async (t) => {
  const container = await freshContainer(t);
  for (const indexingDirective of ["Default", "Include", "Exclude"]) {
    const { statusCode } = await container.items.create(
      { id: indexingDirective, pk: "a" },
      { indexingDirective },
    );
    assert.equal(statusCode, 201);
  }
});

test("twenty writers at once lose nothing", async (t) => {
  const container = await freshContainer(t);
  const writes = Array.from({ length: 20 }, (_, n) =>
    container.items.create({ id: `${n}`, pk: `${n % 3}`, n }),
  );
  const statuses = (await Promise.all(writes)).map(({ statusCode }) => statusCode);
  assert.deepEqual(statuses, Array(20).fill(201));
  assert.equal((await container.items.readAll().fetchAll()).resources.length, 20);
});

test("of twenty creates of one id, one wins", async (t) => {
  const container = await freshContainer(t);
  const attempts = Array.from({ length: 20 }, (_, n) => container.items.create({ id: "1", pk: "a", n }));
  const outcomes = await Promise.allSettled(attempts);
  const statuses = outcomes.map(({ value, reason }) => value?.statusCode ?? reason.code);
  assert.deepEqual(statuses.sort(), [201, ...Array(19).fill(409)]);
});
