// Users, permissions, resource tokens; scripts that are registered; conflicts; delete by key.

import assert from "node:assert/strict";
import { after } from "node:test";
import test from "node:test";
import { CosmosClient, PermissionMode, TriggerOperation, TriggerType } from "@azure/cosmos";
import { answer, endpoint, freshContainer, freshDatabase, ids, name, refused } from "./support.mjs";

const NOT_YET = "does not support executing";

/** The container, reached with credentials that are no key. */
function enter(container, credentials) {
  const client = new CosmosClient({ endpoint, ...credentials });
  after(() => client.dispose());
  return client.database(container.database.id).container(container.id);
}

/** A permission of a new user. */
async function permit(container, mode, rest = {}) {
  const { user } = await container.database.users.create({ id: name() });
  const body = { id: "p", permissionMode: mode, resource: container.url, ...rest };
  const { resource } = await user.permissions.create(body);
  return resource;
}

test("users", async (t) => {
  const database = await freshDatabase(t);
  const { user, statusCode, resource } = await database.users.create({ id: "u" });
  assert.equal(statusCode, 201);
  assert.equal(resource._permissions, "permissions/");
  await refused(database.users.create({ id: "u" }), 409);
  assert.equal((await user.read()).resource._rid, resource._rid);
  assert.deepEqual(ids((await database.users.readAll().fetchAll()).resources), ["u"]);
  const query = "SELECT * FROM root r WHERE r.id = 'u'";
  assert.deepEqual(ids((await database.users.query(query).fetchAll()).resources), ["u"]);
  assert.equal((await database.users.upsert({ id: "u" })).statusCode, 200);
  assert.equal((await database.users.upsert({ id: "v" })).statusCode, 201);
  assert.equal((await user.replace({ id: "w" })).resource._rid, resource._rid);
  await refused(user.read(), 404);
  await database.user("w").delete();
  assert.deepEqual(ids((await database.users.readAll().fetchAll()).resources), ["v"]);
});

test("permissions", async (t) => {
  const container = await freshContainer(t);
  const { user } = await container.database.users.create({ id: "u" });
  const body = { id: "p", permissionMode: PermissionMode.Read, resource: container.url };
  const { permission, resource, statusCode } = await user.permissions.create(body);
  assert.equal(statusCode, 201);
  assert.equal(resource.resource, container.url);
  assert.match(resource._token, /^type=resource&ver=1&sig=/);
  await refused(user.permissions.create(body), 409);
  assert.equal((await permission.read()).resource.permissionMode, "read");
  const changed = await permission.replace({ ...body, permissionMode: PermissionMode.All });
  assert.equal(changed.resource.permissionMode, "all");
  assert.deepEqual(ids((await user.permissions.readAll().fetchAll()).resources), ["p"]);
  const query = "SELECT * FROM root r WHERE r.id = 'p'";
  assert.deepEqual(ids((await user.permissions.query(query).fetchAll()).resources), ["p"]);
  assert.equal((await user.permissions.upsert(body)).resource._rid, resource._rid);
  await permission.delete();
  await refused(permission.read(), 404);
});

test("no credentials", async (t) => {
  const container = await freshContainer(t);
  await refused(enter(container, {}).read(), 401);
  await refused(enter(container, { resourceTokens: { c: "type=resource&ver=1&sig=x" } }).read(), 401);
});

for (const form of ["resourceTokens by link", "resourceTokens by id", "permissionFeed"]) {
  test(`a token for reading, ${form}`, async (t) => {
    const container = await freshContainer(t);
    await container.items.create({ id: "1", pk: "a", n: 1 });
    const permission = await permit(container, "Read");
    const credentials = {
      "resourceTokens by link": { resourceTokens: { [container.url]: permission._token } },
      "resourceTokens by id": { resourceTokens: { [container.id]: permission._token } },
      permissionFeed: { permissionFeed: [permission] },
    }[form];
    const mine = enter(container, credentials);
    assert.equal((await mine.read()).resource.id, "c");
    assert.equal((await mine.item("1", "a").read()).resource.n, 1);
    assert.deepEqual(ids((await mine.items.readAll().fetchAll()).resources), ["1"]);
    assert.deepEqual(await answer(mine, "SELECT VALUE c.n FROM c"), [1]);
    await refused(mine.items.create({ id: "2", pk: "a" }), 403);
    await refused(mine.item("1", "a").replace({ id: "1", pk: "a" }), 403);
    await refused(mine.item("1", "a").delete(), 403);
    await refused(mine.delete(), 403);
    assert.equal((await container.item("1", "a").read()).resource.n, 1);
  });
}

test("a token for everything", async (t) => {
  const container = await freshContainer(t);
  const permission = await permit(container, "All");
  const mine = enter(container, { resourceTokens: { [container.url]: permission._token } });
  await mine.items.create({ id: "1", pk: "a" });
  await mine.items.upsert({ id: "1", pk: "a", n: 2 });
  await mine.item("1", "a").replace({ id: "1", pk: "a", n: 3 });
  assert.equal((await mine.item("1", "a").read()).resource.n, 3);
  await mine.item("1", "a").delete();
  await mine.scripts.storedProcedures.create({ id: "s", body: "function () {}" });
  const { container: other } = await container.database.containers.create({ id: "other" });
  const stranger = enter(other, { resourceTokens: { [other.url]: permission._token } });
  await refused(stranger.read(), 403);
});

test("a token for one item", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a" });
  await container.items.create({ id: "2", pk: "a" });
  const item = container.item("1", "a");
  const permission = await permit(container, "All", { resource: item.url });
  const tokens = { [item.url]: permission._token, [container.url]: permission._token };
  const mine = enter(container, { resourceTokens: tokens });
  assert.equal((await mine.item("1", "a").read()).statusCode, 200);
  await mine.item("1", "a").replace({ id: "1", pk: "a", n: 1 });
  await refused(mine.item("2", "a").read(), 403);
  await refused(mine.items.create({ id: "3", pk: "a" }), 403);
});

test("a token for one partition key", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a" });
  await container.items.create({ id: "2", pk: "b" });
  const permission = await permit(container, "All", { resourcePartitionKey: ["a"] });
  const mine = enter(container, { resourceTokens: { [container.url]: permission._token } });
  assert.equal((await mine.item("1", "a").read()).statusCode, 200);
  await mine.items.create({ id: "3", pk: "a" });
  assert.deepEqual(
    (await answer(mine, "SELECT VALUE c.id FROM c", {}, { partitionKey: "a" })).sort(),
    ["1", "3"],
  );
  await refused(mine.item("2", "b").read(), 403);
  await refused(mine.items.create({ id: "4", pk: "b" }), 403);
  await refused(answer(mine, "SELECT * FROM c", {}, { partitionKey: "b" }), 403);
  await refused(answer(mine, "SELECT * FROM c"), 403);
  await mine.deleteAllItemsForPartitionKey("a");
  await refused(mine.deleteAllItemsForPartitionKey("b"), 403);
  assert.deepEqual(ids((await container.items.readAll().fetchAll()).resources), ["2"]);
});

test("tokens end with their permission", async (t) => {
  const container = await freshContainer(t);
  const { user } = await container.database.users.create({ id: "u" });
  const body = { id: "p", permissionMode: "Read", resource: container.url };
  const options = { resourceTokenExpirySeconds: 60 };
  const { resource, permission } = await user.permissions.create(body, options);
  await refused(user.permissions.create({ ...body, id: "q" }, { resourceTokenExpirySeconds: 5 }), 400);
  const mine = enter(container, { permissionFeed: [resource] });
  assert.equal((await mine.read()).statusCode, 200);
  await permission.delete();
  await refused(mine.read(), 401);
});

test("stored procedures", async (t) => {
  const { scripts } = await freshContainer(t);
  const body = { id: "s", body: (a) => getContext().getResponse().setBody(a) };
  const { storedProcedure, resource } = await scripts.storedProcedures.create(body);
  assert.equal(resource.body, body.body.toString());
  await refused(scripts.storedProcedures.create(body), 409);
  assert.equal((await storedProcedure.read()).resource.id, "s");
  assert.deepEqual(ids((await scripts.storedProcedures.readAll().fetchAll()).resources), ["s"]);
  const changed = await storedProcedure.replace({ id: "s", body: "function () {}" });
  assert.equal(changed.resource.body, "function () {}");
  await refused(storedProcedure.execute("a", [1]), 400, { text: NOT_YET });
  await storedProcedure.delete();
  await refused(storedProcedure.read(), 404);
});

test("triggers", async (t) => {
  const container = await freshContainer(t);
  const { triggers } = container.scripts;
  const body = {
    id: "t",
    body: "function () {}",
    triggerType: TriggerType.Pre,
    triggerOperation: TriggerOperation.All,
  };
  const { trigger, resource } = await triggers.create(body);
  assert.equal(resource.triggerType, "pre");
  assert.equal((await trigger.read()).resource.triggerOperation, "all");
  assert.deepEqual(ids((await triggers.query("SELECT * FROM c").fetchAll()).resources), ["t"]);
  await trigger.replace({ ...body, triggerType: TriggerType.Post });
  const include = { preTriggerInclude: "t" };
  await refused(container.items.create({ id: "1", pk: "a" }, include), 400, { text: NOT_YET });
  assert.deepEqual((await container.items.readAll().fetchAll()).resources, []);
  await trigger.delete();
  await refused(trigger.read(), 404);
});

test("user-defined functions", async (t) => {
  const container = await freshContainer(t);
  const { userDefinedFunctions } = container.scripts;
  const body = { id: "f", body: (x) => x };
  const { userDefinedFunction } = await userDefinedFunctions.create(body);
  assert.equal((await userDefinedFunction.read()).resource.body, body.body.toString());
  assert.deepEqual(ids((await userDefinedFunctions.readAll().fetchAll()).resources), ["f"]);
  await userDefinedFunction.replace({ id: "f", body: "function (x) {}" });
  await refused(answer(container, "SELECT udf.f(c.n) FROM c"), 400, { text: "not supported yet" });
  await userDefinedFunction.delete();
  await refused(userDefinedFunction.read(), 404);
});

test("conflicts", async (t) => {
  const container = await freshContainer(t);
  assert.deepEqual((await container.conflicts.readAll().fetchAll()).resources, []);
  assert.deepEqual((await container.conflicts.query("SELECT * FROM c").fetchAll()).resources, []);
  await refused(container.conflict("x", "a").read(), 404);
  await refused(container.conflict("x", "a").delete(), 404);
});

test("delete by partition key", async (t) => {
  const container = await freshContainer(t);
  for (const id of ["1", "2", "3"]) {
    await container.items.create({ id, pk: "a" });
  }
  await container.items.create({ id: "kept", pk: "b" });
  const { statusCode, headers } = await container.deleteAllItemsForPartitionKey("a");
  assert.equal(statusCode, 200);
  assert.ok(Number(headers["x-ms-request-charge"]) > 3);
  assert.deepEqual(ids((await container.items.readAll().fetchAll()).resources), ["kept"]);
  await container.items.create({ id: "1", pk: "a" });
  assert.equal((await container.item("1", "a").read()).statusCode, 200);
});
