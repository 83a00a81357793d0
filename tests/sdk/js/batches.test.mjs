// Batches and bulk calls: with bodies, without bodies, and to the right range.

import assert from "node:assert/strict";
import test from "node:test";
import { freshContainer, freshDatabase, ids, plain } from "./support.mjs";

const OPERATIONS = [
  { operationType: "Create", resourceBody: { id: "1", pk: "a", n: 1 } },
  { operationType: "Upsert", resourceBody: { id: "2", pk: "a", n: 2 } },
  { operationType: "Replace", id: "1", resourceBody: { id: "1", pk: "a", n: 3 } },
  { operationType: "Delete", id: "2" },
];
const STATUSES = [201, 201, 200, 204];
const operations = () => structuredClone(OPERATIONS);

test("a batch answers with bodies", async (t) => {
  const container = await freshContainer(t);
  const { result, code } = await container.items.batch(operations(), "a");
  assert.equal(code, 200);
  assert.deepEqual(
    result.map(({ statusCode }) => statusCode),
    STATUSES,
  );
  assert.deepEqual(
    result.map(({ resourceBody }) => resourceBody && plain(resourceBody)),
    [{ id: "1", pk: "a", n: 1 }, { id: "2", pk: "a", n: 2 }, { id: "1", pk: "a", n: 3 }, undefined],
  );
});

test("a batch answers without bodies when none are wanted", async (t) => {
  const container = await freshContainer(t);
  const options = { contentResponseOnWriteEnabled: false };
  const { result, code } = await container.items.batch(operations(), "a", options);
  assert.equal(code, 200);
  assert.deepEqual(
    result.map(({ statusCode }) => statusCode),
    STATUSES,
  );
  assert.ok(result.every((entry) => !entry.resourceBody));
  assert.ok(result.slice(0, 3).every(({ eTag }) => eTag));
  assert.deepEqual(ids((await container.items.readAll().fetchAll()).resources), ["1"]);
});

for (const version of [1, 2]) {
  test(`a bulk call finds the range of every key, version ${version}`, async (t) => {
    const partitionKey = { paths: ["/pk"], kind: "Hash", version };
    const container = await freshContainer(t, { partitionKey, throughput: 18000 });
    const keys = [..."abcdefghijklmnop", "x".repeat(90), "é", "", 1, -1, 12313.1221, true, false, null];
    const writes = keys.map((pk) => ({
      operationType: "Create",
      partitionKey: pk,
      resourceBody: { id: "1", pk },
    }));
    const results = await container.items.executeBulkOperations(writes);
    assert.deepEqual(
      results.map(({ response }) => response?.statusCode),
      keys.map(() => 201),
    );
    for (const pk of keys) {
      assert.equal((await container.item("1", pk).read()).resource.pk, pk);
    }
  });
}

for (const [before, after] of [[400, 20000], [30000, 20000], [20000, 400]]) {
  const change = `${before} to ${after} RU/s`;
  // The client knows the ranges from before, and waits for ever on one that is gone and still there.
  test(`a bulk call ends when the container was made again, ${change}`, { timeout: 60_000 }, async (t) => {
    const partitionKey = { paths: ["/pk"], kind: "Hash", version: 2 };
    const database = await freshDatabase(t);
    const writes = () =>
      [..."abcdefghijklmnop"].map((pk) => ({
        operationType: "Create",
        partitionKey: pk,
        resourceBody: { id: "1", pk },
      }));
    for (const throughput of [before, after]) {
      const { container } = await database.containers.create({ id: "c", partitionKey, throughput });
      const results = await container.items.executeBulkOperations(writes());
      assert.deepEqual(new Set(results.map(({ response }) => response?.statusCode)), new Set([201]));
      const { resources } = await container.items.readAll().fetchAll();
      assert.equal(resources.length, 16);
      await container.delete();
    }
  });
}

test("a bulk call answers without bodies when none are wanted", async (t) => {
  const container = await freshContainer(t);
  const writes = ["a", "b", "c"].map((pk) => ({
    operationType: "Create",
    partitionKey: pk,
    resourceBody: { id: "1", pk },
  }));
  const results = await container.items.executeBulkOperations(writes, {
    contentResponseOnWriteEnabled: false,
  });
  assert.deepEqual(
    results.map(({ response }) => response?.statusCode),
    [201, 201, 201],
  );
  assert.ok(results.every(({ response }) => !response.resourceBody));
});

test("a batch patches, and sees what it did before", async (t) => {
  const container = await freshContainer(t);
  const patch = [{ op: "incr", path: "/n", value: 4 }];
  const { result, code } = await container.items.batch(
    [
      { operationType: "Create", resourceBody: { id: "1", pk: "a", n: 1 } },
      { operationType: "Patch", id: "1", resourceBody: patch },
      { operationType: "Patch", id: "1", resourceBody: { operations: patch, condition: "from c where c.n = 5" } },
      { operationType: "Read", id: "1" },
    ],
    "a",
  );
  assert.equal(code, 200);
  assert.deepEqual(
    result.map(({ resourceBody }) => resourceBody.n),
    [1, 5, 9, 9],
  );
});

test("a failed batch leaves nothing", async (t) => {
  const container = await freshContainer(t);
  const { result, code } = await container.items.batch(
    [...operations(), { operationType: "Read", id: "nothing" }, { operationType: "Read", id: "1" }],
    "a",
  );
  assert.equal(code, 207);
  assert.deepEqual(
    result.map(({ statusCode }) => statusCode),
    [424, 424, 424, 424, 404, 424],
  );
  assert.deepEqual((await container.items.readAll().fetchAll()).resources, []);
});

test("a batch for the wrong key is refused", async (t) => {
  const container = await freshContainer(t);
  const { result, code } = await container.items.batch(operations(), "b");
  assert.equal(code, 207);
  assert.equal(result[0].statusCode, 400);
});

test("a bulk call gives each operation its own result", async (t) => {
  const container = await freshContainer(t);
  const partitionKey = "a";
  const results = await container.items.executeBulkOperations([
    { operationType: "Create", partitionKey, resourceBody: { id: "1", pk: "a", n: 1 } },
    { operationType: "Create", partitionKey, resourceBody: { id: "1", pk: "a", n: 2 } },
    { operationType: "Upsert", partitionKey, resourceBody: { id: "2", pk: "a", n: 3 } },
    { operationType: "Patch", partitionKey, id: "1", resourceBody: [{ op: "incr", path: "/n", value: 1 }] },
    { operationType: "Replace", partitionKey, id: "2", resourceBody: { id: "2", pk: "a", n: 4 } },
    { operationType: "Read", partitionKey, id: "2" },
    { operationType: "Delete", partitionKey, id: "2" },
    { operationType: "Read", partitionKey, id: "nothing" },
  ]);
  assert.deepEqual(
    results.map(({ response, error }) => response?.statusCode ?? error.code),
    [201, 409, 201, 200, 200, 200, 204, 404],
  );
  assert.equal(results[3].response.resourceBody.n, 2);
  assert.match(results[1].error.message, /already exists/);
  assert.ok(results.every(({ response, error }) => (response ?? error).requestCharge > 0));
});

test("the older bulk call works as well, and stops when told to", async (t) => {
  const container = await freshContainer(t);
  const writes = [
    { operationType: "Create", resourceBody: { id: "1", pk: "a" } },
    { operationType: "Create", resourceBody: { id: "1", pk: "a" } },
    { operationType: "Create", resourceBody: { id: "2", pk: "a" } },
    { operationType: "Read", partitionKey: "a", id: "1" },
  ];
  const stopped = await container.items.bulk(structuredClone(writes), { continueOnError: false });
  assert.deepEqual(
    stopped.map(({ statusCode }) => statusCode),
    [201, 409, 424, 424],
  );
  const all = await container.items.bulk(structuredClone(writes));
  assert.deepEqual(
    all.map(({ statusCode }) => statusCode),
    [409, 409, 201, 200],
  );
});

test("a thousand items in bulk", async (t) => {
  const container = await freshContainer(t, { throughput: 18000 });
  const writes = Array.from({ length: 1000 }, (_, n) => ({
    operationType: "Create",
    partitionKey: `k${n % 50}`,
    resourceBody: { id: `${n}`, pk: `k${n % 50}`, n },
  }));
  const results = await container.items.executeBulkOperations(writes);
  assert.ok(results.every(({ response }) => response?.statusCode === 201));
  const { resources } = await container.items.query("SELECT VALUE COUNT(1) FROM c").fetchAll();
  assert.deepEqual(resources, [1000]);
});
