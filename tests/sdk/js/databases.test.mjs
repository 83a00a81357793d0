// Databases: create, read, list, query, delete.

import assert from "node:assert/strict";
import test from "node:test";
import { UUID, client, freshDatabase, ids, name, refused, spec } from "./support.mjs";

const NAMES = [
  ["punctuation", "!@$%^&*()-~`'_[]{}|;:,.<>"],
  ["spaces inside", "two  words"],
  ["a leading space", " led"],
  ["unicode", "été-日本語-😀"],
  ["a percent sign", "100%25"],
  ["a plus", "a+b"],
  ["quotes", `"quoted"`],
  ["dots", "..."],
];

test("create answers with the database", async (t) => {
  const id = name();
  const { resource, statusCode, headers, etag, requestCharge, activityId } = await client.databases.create({
    id,
  });
  t.after(() => client.database(id).delete());
  assert.equal(statusCode, 201);
  assert.deepEqual(Object.keys(resource).sort(), ["_colls", "_etag", "_rid", "_self", "_ts", "_users", "id"]);
  assert.equal(resource.id, id);
  assert.equal(Buffer.from(resource._rid.replaceAll("-", "/"), "base64").length, 4);
  assert.equal(resource._rid.length, 8);
  assert.equal(resource._self, `dbs/${resource._rid}/`);
  assert.equal(resource._colls, "colls/");
  assert.equal(resource._users, "users/");
  assert.ok(Number.isInteger(resource._ts));
  assert.match(resource._etag, /^".+"$/);
  assert.equal(etag, resource._etag);
  assert.equal(headers["content-type"], "application/json");
  assert.ok(requestCharge > 0);
  assert.match(activityId, UUID);
});

test("a name is taken once", async (t) => {
  const { id } = await freshDatabase(t);
  await refused(client.databases.create({ id }), 409);
});

test("names are case sensitive", async (t) => {
  const { id } = await freshDatabase(t, { id: `${name()}-case` });
  const other = await freshDatabase(t, { id: id.toUpperCase() });
  assert.equal((await other.read()).resource.id, id.toUpperCase());
  assert.equal((await client.database(id).read()).resource.id, id);
});

test("createIfNotExists makes it the first time and reads it the second", async (t) => {
  const id = name();
  const first = await client.databases.createIfNotExists({ id });
  t.after(() => client.database(id).delete());
  const second = await client.databases.createIfNotExists({ id });
  assert.deepEqual([first.statusCode, second.statusCode], [201, 200]);
  assert.deepEqual(second.resource, first.resource);
});

test("read gives what create gave", async (t) => {
  const id = name();
  const created = await client.databases.create({ id });
  t.after(() => client.database(id).delete());
  const { resource, statusCode, etag } = await created.database.read();
  assert.equal(statusCode, 200);
  assert.deepEqual(resource, created.resource);
  assert.equal(etag, created.etag);
});

test("what does not exist is not found", async () => {
  await refused(client.database(name()).read(), 404);
  await refused(client.database(name()).delete(), 404);
});

test("readAll lists, in pages of the wanted size", async (t) => {
  const made = [await freshDatabase(t), await freshDatabase(t), await freshDatabase(t)];
  const { resources } = await client.databases.readAll().fetchAll();
  for (const { id } of made) {
    assert.equal(resources.filter((each) => each.id === id).length, 1);
  }
  const pages = [];
  for await (const page of client.databases.readAll({ maxItemCount: 1 }).getAsyncIterator()) {
    assert.ok(page.resources.length <= 1);
    pages.push(...page.resources);
  }
  for (const { id } of made) {
    assert.equal(pages.filter((each) => each.id === id).length, 1);
  }
});

test("databases can be queried", async (t) => {
  const { id } = await freshDatabase(t);
  await freshDatabase(t);
  const query = spec("SELECT * FROM root r WHERE r.id=@id", { id });
  const { resources } = await client.databases.query(query).fetchAll();
  assert.deepEqual(ids(resources), [id]);
});

test("delete takes the containers along", async () => {
  const { database } = await client.databases.create({ id: name() });
  const { container } = await database.containers.create({ id: "c", partitionKey: "/pk" });
  const { statusCode, resource } = await database.delete();
  assert.equal(statusCode, 204);
  assert.equal(resource, null);
  await refused(database.read(), 404);
  await refused(container.read(), 404, { sub: 1003 });
  await refused(database.delete(), 404);
});

test("delete heeds the etag", async (t) => {
  const database = await freshDatabase(t);
  const accessCondition = { type: "IfMatch", condition: '"00000000-0000-0000-0000-000000000000"' };
  await refused(database.delete({ accessCondition }), 412);
  assert.equal((await database.read()).statusCode, 200);
});

test("a name that is free again belongs to a new database", async (t) => {
  const id = name();
  const first = await client.databases.create({ id });
  await first.database.delete();
  const second = await client.databases.create({ id });
  t.after(() => second.database.delete());
  assert.notEqual(second.resource._rid, first.resource._rid);
});

for (const [title, prefix] of NAMES) {
  test(`a database and a container may have ${title} in their names`, async (t) => {
    const id = `${prefix}${name()}`;
    const database = await freshDatabase(t, { id });
    assert.equal((await database.read()).resource.id, id);
    const { container } = await database.containers.create({ id, partitionKey: "/pk" });
    assert.equal((await container.read()).resource.id, id);
    const { item } = await container.items.create({ id: "1", pk: "a" });
    assert.equal((await item.read()).resource.id, "1");
    assert.equal((await container.items.readAll().fetchAll()).resources.length, 1);
    assert.equal((await container.delete()).statusCode, 204);
  });
}

test("255 characters are allowed, 256 are not", async (t) => {
  await freshDatabase(t, { id: name().padEnd(255, "x") });
  const text = "Ensure to provide a unique non-empty string less than '255' characters.";
  await refused(client.databases.create({ id: name().padEnd(256, "x") }), 400, { text });
});

for (const [title, body] of [
  ["empty", { id: "" }],
  ["missing", {}],
  ["null", { id: null }],
  ["not a string", { id: 0 }],
]) {
  test(`an id that is ${title} is refused`, async () => {
    await refused(client.databases.create(body), 400);
  });
}
