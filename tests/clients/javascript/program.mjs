// Checks a server with the official JavaScript client. Needs a server with --test-clock.
// NODE_EXTRA_CA_CERTS names the certificate to trust.

import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { ChangeFeedStartFrom, CosmosClient, PermissionMode } from "@azure/cosmos";

const endpoint = process.env.PERSEID_ENDPOINT;
const key = process.env.PERSEID_KEY;
const SIZES = { "one range": 400, "several ranges": 24000 };

const client = new CosmosClient({ endpoint, key });

let passed = 0;
let failed = 0;

/** Runs a group of checks, which count themselves; the group counts only if it fails between them. */
async function group(name, run) {
  try {
    await run();
    return true;
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${String(error.stack ?? error.message).slice(0, 1500)}`);
    return false;
  }
}

async function check(name, run) {
  if (await group(name, run)) {
    passed += 1;
    console.log(`ok      ${name}`);
  }
}

async function refused(status, promise) {
  const error = await promise.then(() => assert.fail(`expected ${status}, but it succeeded`), (reason) => reason);
  assert.equal(error.code, status, error.message);
}

/** Calls the admin API of a server with --test-clock. */
async function moveClock(action, body = {}) {
  const path = `_perseid/clock/${action}`;
  const date = new Date().toUTCString();
  const text = `post\n_perseid\n${path}\n${date.toLowerCase()}\n\n`;
  const signature = createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
  const response = await fetch(new URL(path, endpoint), {
    method: "POST",
    headers: {
      "x-ms-date": date,
      "x-ms-version": "2020-07-15",
      authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`),
      "content-type": "application/json",
    },
    body: JSON.stringify(body),
  });
  assert.ok(response.ok, `clock: ${await response.text()}`);
}

const advance = (seconds) => moveClock("advance", { seconds });
const order = (id, ttl) => ({ id, customer: "ada", total: 1, ...(ttl === undefined ? {} : { ttl }) });
const numbered = (number) => ({ id: `o${number}`, customer: `customer${number % 12}`, total: number });
const ids = (rows) => rows.map((row) => row.id).sort();
const read = async (container, id) => (await container.item(id, "ada").read()).resource;

async function gone(container, id) {
  assert.equal((await container.item(id, "ada").read()).statusCode, 404);
}

let database;

async function create(id, body = {}) {
  const { container } = await database.containers.create({ id, partitionKey: "/customer", ...body });
  return container;
}

async function items() {
  const orders = await create("items");
  await check("items: create, read, replace, upsert, patch, delete", async () => {
    assert.equal((await orders.items.create(order("é€😀"))).statusCode, 201);
    const item = orders.item("é€😀", "ada");
    const { resource } = await item.read();
    await item.replace({ ...resource, total: 2 });
    assert.equal((await orders.items.upsert({ ...resource, total: 3 })).statusCode, 200);
    const patched = await item.patch([{ op: "incr", path: "/total", value: 4 }]);
    assert.equal(patched.resource.total, 7);
    await item.delete();
    await gone(orders, "é€😀");
  });
  await check("items: etags and conflicts", async () => {
    const { etag, item } = await orders.items.create(order("etag"));
    const accessCondition = { type: "IfMatch", condition: etag };
    await item.replace(order("etag"), { accessCondition });
    await refused(412, item.replace(order("etag"), { accessCondition }));
    await refused(409, orders.items.create(order("etag")));
  });
}

async function lifetimes() {
  await check("ttl: off, -1 and a number on a container", async () => {
    for (const defaultTtl of [undefined, -1, 10]) {
      const container = await create(`default${defaultTtl}`, { defaultTtl });
      assert.equal((await container.read()).resource.defaultTtl, defaultTtl);
    }
  });
  await check("ttl: the nine combinations", combinations);
  await check("ttl: an item's own value overrides the default", async () => {
    const container = await create("override", { defaultTtl: 60 });
    await container.items.create(order("short", 30));
    await container.items.create(order("never", -1));
    await container.items.create(order("default"));
    await advance(30);
    await gone(container, "short");
    assert.ok(await read(container, "default"));
    await advance(30);
    await gone(container, "default");
    assert.ok(await read(container, "never"));
  });
  await check("ttl: a write extends the lifetime, without the property it is removed", async () => {
    const container = await create("extend", { defaultTtl: -1 });
    await container.items.create(order("extended", 60));
    await container.items.create(order("removed", 60));
    await advance(40);
    await container.item("extended", "ada").replace(order("extended", 1800));
    const { ttl, ...withoutTtl } = await read(container, "removed");
    assert.equal(ttl, 60);
    await container.item("removed", "ada").replace(withoutTtl);
    await advance(1780);
    assert.ok(await read(container, "extended"));
    await advance(30);
    await gone(container, "extended");
    assert.ok(await read(container, "removed"));
  });
  await check("ttl: change and disable it on the container", async () => {
    const container = await create("disable");
    await container.items.create(order("a"));
    await container.items.create(order("b", 30));
    const { resource } = await container.read();
    await container.replace({ ...resource, defaultTtl: 600 });
    await advance(30);
    await container.replace({ ...resource, defaultTtl: undefined });
    await advance(3600);
    assert.ok(await read(container, "a"));
    await gone(container, "b");
  });
  await check("ttl: invalid values are refused", async () => {
    const container = await create("invalid", { defaultTtl: -1 });
    await refused(400, container.items.create(order("a", 0)));
    await refused(400, container.items.create(order("a", -2)));
  });
}

async function combinations() {
  // The items that exist after 0, 9, 10, 19 and 20 seconds; a has no ttl, b -1, c 20.
  const expected = [
    [undefined, ["abc", "abc", "abc", "abc", "abc"]],
    [-1, ["abc", "abc", "abc", "abc", "ab"]],
    [10, ["abc", "abc", "bc", "bc", "b"]],
  ];
  const containers = [];
  for (const [defaultTtl] of expected) {
    containers.push(await create(`nine${defaultTtl}`, { defaultTtl }));
  }
  await moveClock("freeze");
  try {
    for (const container of containers) {
      await container.items.create(order("a"));
      await container.items.create(order("b", -1));
      await container.items.create(order("c", 20));
    }
    for (const [step, seconds] of [0, 9, 1, 9, 1].entries()) {
      await (seconds && advance(seconds));
      for (const [row, container] of containers.entries()) {
        const { resources } = await container.items.query("SELECT VALUE c.id FROM c ORDER BY c.id").fetchAll();
        assert.equal(resources.join(""), expected[row][1][step], `row ${row}, step ${step}`);
      }
    }
  } finally {
    await moveClock("resume");
  }
}

async function batches() {
  const orders = await create("batch");
  await orders.items.create(order("old"));
  await check("batch: all operations", async () => {
    const { result } = await orders.items.batch(
      [
        { operationType: "Create", resourceBody: order("new") },
        { operationType: "Upsert", resourceBody: order("other") },
        { operationType: "Replace", id: "old", resourceBody: { ...order("old"), total: 2 } },
        { operationType: "Patch", id: "old", resourceBody: { operations: [{ op: "incr", path: "/total", value: 5 }] } },
        { operationType: "Read", id: "old" },
        { operationType: "Delete", id: "other" },
      ],
      "ada",
    );
    assert.deepEqual(result.map((each) => each.statusCode), [201, 201, 200, 200, 200, 204]);
    assert.equal(result[4].resourceBody.total, 7);
  });
  await check("batch: one fails, none is done", async () => {
    const operations = ["fresh", "old"].map((id) => ({ operationType: "Create", resourceBody: order(id) }));
    const { result } = await orders.items.batch(operations, "ada");
    assert.deepEqual(result.map((each) => each.statusCode), [424, 409]);
    await gone(orders, "fresh");
  });
  await check("bulk: over several ranges", async () => {
    const many = await create("bulk", { throughput: 24000 });
    const operations = Array.from({ length: 100 }, (_, number) => ({
      operationType: "Create",
      partitionKey: numbered(number).customer,
      resourceBody: numbered(number),
    }));
    const results = await many.items.executeBulkOperations(operations);
    assert.ok(results.every((each) => each.response.statusCode === 201));
  });
}

async function queries() {
  for (const [name, throughput] of Object.entries(SIZES)) {
    const orders = await create(`queries${throughput}`, { throughput });
    for (let number = 0; number < 60; number += 1) {
      await orders.items.create(numbered(number));
    }
    const all = async (query, options = {}) =>
      (await orders.items.query(query, { forceQueryPlan: true, maxItemCount: 7, ...options }).fetchAll()).resources;
    const numbers = Array.from({ length: 60 }, (_, number) => number);
    await check(`query: pages over ${name}`, async () => {
      const rows = [];
      for await (const { resources } of orders.items.query("SELECT VALUE c.total FROM c", { maxItemCount: 7 }).getAsyncIterator()) {
        rows.push(...resources);
      }
      assert.deepEqual(rows.sort((a, b) => a - b), numbers);
    });
    await check(`query: ORDER BY over ${name}`, async () => {
      assert.deepEqual(await all("SELECT VALUE c.total FROM c ORDER BY c.total"), numbers);
    });
    await check(`query: aggregates and groups over ${name}`, async () => {
      assert.deepEqual(await all("SELECT VALUE COUNT(1) FROM c"), [60]);
      assert.deepEqual(await all("SELECT VALUE SUM(c.total) FROM c"), [1770]);
      assert.deepEqual(await all("SELECT VALUE AVG(c.total) FROM c"), [29.5]);
      const groups = await all("SELECT c.customer, COUNT(1) AS n FROM c GROUP BY c.customer");
      assert.deepEqual(groups.map((group) => group.n), Array(12).fill(5));
    });
    await check(`query: one partition key, with parameters, over ${name}`, async () => {
      const query = {
        query: "SELECT VALUE c.total FROM c WHERE c.total >= @least ORDER BY c.total",
        parameters: [{ name: "@least", value: 24 }],
      };
      const { resources } = await orders.items.query(query, { partitionKey: "customer3" }).fetchAll();
      assert.deepEqual(resources, [27, 39, 51]);
    });
  }
}

async function changes(container, changeFeedStartFrom) {
  const found = [];
  for await (const page of container.items.getChangeFeedIterator({ changeFeedStartFrom, maxItemCount: 5 }).getAsyncIterator()) {
    if (page.statusCode === 304) {
      return { found: ids(found), token: page.continuationToken };
    }
    found.push(...page.result);
  }
}

async function feeds() {
  for (const [name, throughput] of Object.entries(SIZES)) {
    await check(`change feed: from the beginning, then what follows, over ${name}`, async () => {
      const orders = await create(`feed${throughput}`, { throughput });
      for (let number = 0; number < 24; number += 1) {
        await orders.items.create(numbered(number));
      }
      const { found, token } = await changes(orders, ChangeFeedStartFrom.Beginning());
      assert.equal(new Set(found).size, 24);
      assert.equal(found.length, 24);
      await orders.items.upsert(numbered(3));
      await orders.items.upsert(numbered(4));
      assert.deepEqual((await changes(orders, ChangeFeedStartFrom.Continuation(token))).found, ["o3", "o4"]);
    });
  }
}

async function throughput() {
  await check("throughput: read and replace", async () => {
    const container = await create("manual", { throughput: 400 });
    const { resource, offer } = await container.readOffer();
    assert.equal(resource.content.offerThroughput, 400);
    await offer.replace({ ...resource, content: { ...resource.content, offerThroughput: 800 } });
    assert.equal((await container.readOffer()).resource.content.offerThroughput, 800);
  });
}

async function access() {
  await check("access: a user's permission and its token", async () => {
    const orders = await create("access");
    await orders.items.create(order("a"));
    const { user } = await database.users.create({ id: "reader" });
    const { resource } = await user.permissions.create({ id: "read", permissionMode: PermissionMode.Read, resource: orders.url });
    const guest = new CosmosClient({ endpoint, resourceTokens: { [orders.url]: resource._token } });
    const seen = guest.database(database.id).container("access");
    assert.ok(await read(seen, "a"));
    await refused(403, seen.items.upsert(order("b")));
    guest.dispose();
  });
}

await check("create a database", async () => {
  ({ database } = await client.databases.create({ id: `javascript-${randomUUID()}` }));
});
for (const checks of [items, lifetimes, batches, queries, feeds, throughput, access]) {
  await group(`all of ${checks.name}`, checks);
}
await check("delete the database", () => database.delete());
client.dispose();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
