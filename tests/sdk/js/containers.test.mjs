// Containers: their definition, replace, quota, partition key ranges.

import assert from "node:assert/strict";
import test from "node:test";
import { client, freshContainer, freshDatabase, ids, name, refused, spec } from "./support.mjs";

const DEFAULT_POLICY = {
  indexingMode: "consistent",
  automatic: true,
  includedPaths: [{ path: "/*" }],
  excludedPaths: [{ path: '/"_etag"/?' }],
};
const STALE = { accessCondition: { type: "IfMatch", condition: '"00000000-0000-0000-0000-000000000000"' } };

test("create fills in the defaults", async (t) => {
  const database = await freshDatabase(t);
  const owner = (await database.read()).resource;
  const { resource, statusCode, etag } = await database.containers.create({ id: "c", partitionKey: "/pk" });
  assert.equal(statusCode, 201);
  const { _rid, _ts, _etag, ...rest } = resource;
  assert.deepEqual(rest, {
    id: "c",
    indexingPolicy: DEFAULT_POLICY,
    partitionKey: { paths: ["/pk"], kind: "Hash" },
    uniqueKeyPolicy: { uniqueKeys: [] },
    conflictResolutionPolicy: {
      mode: "LastWriterWins",
      conflictResolutionPath: "/_ts",
      conflictResolutionProcedure: "",
    },
    geospatialConfig: { type: "Geography" },
    _self: `dbs/${owner._rid}/colls/${_rid}/`,
    _docs: "docs/",
    _sprocs: "sprocs/",
    _triggers: "triggers/",
    _udfs: "udfs/",
    _conflicts: "conflicts/",
  });
  const bytes = Buffer.from(_rid.replaceAll("-", "/"), "base64");
  assert.equal(bytes.length, 8);
  assert.deepEqual(bytes.subarray(0, 4), Buffer.from(owner._rid.replaceAll("-", "/"), "base64"));
  assert.ok(bytes[4] & 0x80);
  assert.ok(Number.isInteger(_ts));
  assert.equal(etag, _etag);
});

test("without a partition key the default path is used", async (t) => {
  const database = await freshDatabase(t);
  const { resource, container } = await database.containers.create({ id: "c" });
  assert.deepEqual(resource.partitionKey.paths, ["/_partitionKey"]);
  const { item } = await container.items.create({ id: "1" });
  assert.equal((await item.read()).resource.id, "1");
  assert.equal((await container.item("1").read()).resource.id, "1");
});

const DEFINITIONS = [
  ["a key of version 2", { partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } }],
  ["a nested key", { partitionKey: { paths: ["/a/b/c"], kind: "Hash", version: 2 } }],
  ["a hierarchical key", { partitionKey: { paths: ["/a", "/b", "/c"], kind: "MultiHash", version: 2 } }],
  ["a default ttl", { defaultTtl: 3600 }],
  ["ttl without a default", { defaultTtl: -1 }],
  [
    "unique keys",
    { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }, { paths: ["/first", "/last"] }] } },
  ],
  ["a planar geometry", { geospatialConfig: { type: "Geometry" } }],
  [
    "a conflict path",
    {
      conflictResolutionPolicy: {
        mode: "LastWriterWins",
        conflictResolutionPath: "/version",
        conflictResolutionProcedure: "",
      },
    },
  ],
  [
    "computed properties",
    {
      computedProperties: [{ name: "lowerName", query: "SELECT VALUE LOWER(c.name) FROM c" }],
    },
  ],
  [
    "composite indexes",
    {
      indexingPolicy: {
        ...DEFAULT_POLICY,
        compositeIndexes: [
          [
            { path: "/a", order: "ascending" },
            { path: "/b", order: "descending" },
          ],
        ],
      },
    },
  ],
  ["a change feed policy", { changeFeedPolicy: { retentionDuration: 10 } }],
  [
    "full text",
    {
      fullTextPolicy: { defaultLanguage: "en-US", fullTextPaths: [{ path: "/t", language: "en-US" }] },
      indexingPolicy: { ...DEFAULT_POLICY, fullTextIndexes: [{ path: "/t" }] },
    },
  ],
];
for (const [title, definition] of DEFINITIONS) {
  test(`a container with ${title} is read as it was made`, async (t) => {
    const container = await freshContainer(t, structuredClone(definition));
    const { resource } = await container.read();
    for (const [property, value] of Object.entries(definition)) {
      assert.deepEqual(resource[property], value);
    }
  });
}

test("a container may have no index", async (t) => {
  const container = await freshContainer(t, { indexingPolicy: { indexingMode: "None", automatic: false } });
  const { indexingPolicy } = (await container.read()).resource;
  assert.equal(indexingPolicy.indexingMode, "none");
  assert.equal(indexingPolicy.automatic, false);
});

test("a container may have vectors", async (t) => {
  const embedding = { path: "/v", dataType: "float32", distanceFunction: "cosine", dimensions: 8 };
  const vectorEmbeddingPolicy = { vectorEmbeddings: [embedding] };
  const vectorIndexes = [{ path: "/v", type: "flat" }];
  const indexingPolicy = { ...DEFAULT_POLICY, vectorIndexes };
  const container = await freshContainer(t, { vectorEmbeddingPolicy, indexingPolicy });
  const { resource } = await container.read();
  assert.deepEqual(resource.vectorEmbeddingPolicy, vectorEmbeddingPolicy);
  assert.deepEqual(resource.indexingPolicy.vectorIndexes, vectorIndexes);
});

test("an indexing policy is completed and put in its usual form", async (t) => {
  const indexingPolicy = { includedPaths: [{ path: "/" }], excludedPaths: [{ path: "/secret/*" }] };
  const container = await freshContainer(t, { indexingPolicy });
  const { indexingPolicy: found } = (await container.read()).resource;
  assert.equal(found.indexingMode, "consistent");
  assert.equal(found.automatic, true);
  assert.deepEqual(
    found.includedPaths.map(({ path }) => path),
    ["/*"],
  );
  assert.deepEqual(found.excludedPaths.map(({ path }) => path).sort(), ['/"_etag"/?', "/secret/*"]);
});

test("an empty indexing policy is the default one, and modes are shown in lower case", async (t) => {
  const container = await freshContainer(t, { indexingPolicy: {} });
  assert.deepEqual((await container.read()).resource.indexingPolicy, DEFAULT_POLICY);
  const other = await freshContainer(t, { indexingPolicy: { indexingMode: "Consistent" } });
  assert.deepEqual((await other.read()).resource.indexingPolicy, DEFAULT_POLICY);
});

const BAD_PATH =
  "Partition key paths must contain only valid characters and not contain a trailing slash or wildcard";
const BAD_ID = "Ensure to provide a unique non-empty string less than '255' characters.";
const BAD = [
  ["a ttl of 0", { defaultTtl: 0 }, ""],
  ["a ttl of -2", { defaultTtl: -2 }, ""],
  ["a ttl beyond 31 bits", { defaultTtl: 2147483648 }, ""],
  ["a fractional ttl", { defaultTtl: 1.5 }, ""],
  [
    "four key levels",
    {
      partitionKey: { paths: ["/a", "/b", "/c", "/d"], kind: "MultiHash", version: 2 },
    },
    "Too many partition key paths",
  ],
  [
    "two paths without a hierarchy",
    {
      partitionKey: { paths: ["/a", "/b"], kind: "Hash", version: 2 },
    },
    "Too many partition key paths",
  ],
  ["a key path with a trailing slash", { partitionKey: "/pk/" }, BAD_PATH],
  ["a key path with a wildcard", { partitionKey: "/*" }, BAD_PATH],
  ["an unknown indexing mode", { indexingPolicy: { indexingMode: "sometimes" } }, ""],
  ["an empty id", { id: "" }, BAD_ID],
  ["an id of 256 characters", { id: "x".repeat(256) }, BAD_ID],
  ["a computed property that is no query", { computedProperties: [{ name: "p", query: "lower" }] }, ""],
];
for (const [title, definition, text] of BAD) {
  test(`a container with ${title} is refused`, async (t) => {
    const database = await freshDatabase(t);
    const body = { id: "c", partitionKey: "/pk", ...structuredClone(definition) };
    await refused(database.containers.create(body), 400, { text });
    assert.deepEqual((await database.containers.readAll().fetchAll()).resources, []);
  });
}

test("a name is taken once in a database", async (t) => {
  const container = await freshContainer(t);
  await refused(container.database.containers.create({ id: "c", partitionKey: "/other" }), 409);
  const other = await freshDatabase(t);
  assert.equal((await other.containers.create({ id: "c", partitionKey: "/pk" })).statusCode, 201);
});

test("createIfNotExists makes it the first time and reads it the second", async (t) => {
  const database = await freshDatabase(t);
  const first = await database.containers.createIfNotExists({ id: "c", partitionKey: "/pk" });
  const second = await database.containers.createIfNotExists({ id: "c", partitionKey: "/pk" });
  assert.deepEqual([first.statusCode, second.statusCode], [201, 200]);
  assert.deepEqual(second.resource, first.resource);
});

test("what does not exist is not found", async (t) => {
  const database = await freshDatabase(t);
  const missing = database.container("missing");
  await refused(missing.read(), 404);
  await refused(missing.delete(), 404);
  await refused(missing.replace({ id: "missing", partitionKey: { paths: ["/pk"] } }), 404);
});

test("there is no container without a database", async () => {
  const nowhere = client.database(name());
  const error = await nowhere.containers.create({ id: "c", partitionKey: "/pk" }).catch((reason) => reason);
  assert.equal(error.code, 404);
  const listing = await nowhere.containers
    .readAll()
    .fetchAll()
    .catch((reason) => reason);
  assert.equal(listing.code, 404);
});

test("containers are listed and queried", async (t) => {
  const database = await freshDatabase(t);
  for (const id of ["a", "b", "c"]) {
    await database.containers.create({ id, partitionKey: "/pk" });
  }
  assert.deepEqual(ids((await database.containers.readAll().fetchAll()).resources), ["a", "b", "c"]);
  const iterator = database.containers.readAll({ maxItemCount: 2 });
  const first = await iterator.fetchNext();
  assert.equal(first.resources.length, 2);
  assert.equal(first.hasMoreResults, true);
  const second = await iterator.fetchNext();
  assert.equal(second.resources.length, 1);
  assert.equal(second.hasMoreResults, false);
  assert.deepEqual(ids([...first.resources, ...second.resources]), ["a", "b", "c"]);
  const query = spec("SELECT * FROM root r WHERE r.id=@id", { id: "b" });
  assert.deepEqual(ids((await database.containers.query(query).fetchAll()).resources), ["b"]);
});

test("replace changes the indexing policy and the ttl", async (t) => {
  const container = await freshContainer(t);
  const { resource: before } = await container.read();
  const indexingPolicy = { ...DEFAULT_POLICY, excludedPaths: [{ path: "/x/*" }, { path: '/"_etag"/?' }] };
  const { statusCode, resource: after } = await container.replace({
    ...before,
    indexingPolicy,
    defaultTtl: 60,
  });
  assert.equal(statusCode, 200);
  assert.equal(after.defaultTtl, 60);
  assert.deepEqual(after.indexingPolicy, indexingPolicy);
  assert.equal(after._rid, before._rid);
  assert.equal(after._self, before._self);
  assert.notEqual(after._etag, before._etag);
  assert.deepEqual((await container.read()).resource, after);
});

test("replace resets what it leaves out", async (t) => {
  const uniqueKeyPolicy = { uniqueKeys: [{ paths: ["/email"] }] };
  const indexingPolicy = { ...DEFAULT_POLICY, excludedPaths: [{ path: "/x/*" }] };
  const container = await freshContainer(t, { defaultTtl: 60, indexingPolicy, uniqueKeyPolicy });
  const { partitionKey } = (await container.read()).resource;
  const { resource } = await container.replace({ id: "c", partitionKey });
  assert.ok(!("defaultTtl" in resource));
  assert.deepEqual(resource.indexingPolicy, DEFAULT_POLICY);
  assert.deepEqual(resource.uniqueKeyPolicy, uniqueKeyPolicy);
});

test("replace keeps the items", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a" });
  const { resource } = await container.read();
  await container.replace({ ...resource, defaultTtl: 1000 });
  assert.equal((await container.item("1", "a").read()).statusCode, 200);
});

for (const [title, change] of [
  ["the partition key", { partitionKey: { paths: ["/other"], kind: "Hash", version: 1 } }],
  ["the version of the key", { partitionKey: { paths: ["/pk"], kind: "Hash", version: 2 } }],
  ["the id", { id: "other" }],
  ["the unique keys", { uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] } }],
  ["the ttl to nonsense", { defaultTtl: 0 }],
]) {
  test(`replace cannot change ${title}`, async (t) => {
    const container = await freshContainer(t);
    const { resource } = await container.read();
    await refused(container.replace({ ...resource, ...change }), 400);
    assert.deepEqual((await container.read()).resource, resource);
  });
}

test("replace and delete heed the etag", async (t) => {
  const container = await freshContainer(t);
  const { resource } = await container.read();
  await refused(container.replace({ ...resource, defaultTtl: 5 }, STALE), 412);
  await refused(container.delete(STALE), 412);
  const current = { accessCondition: { type: "IfMatch", condition: resource._etag } };
  assert.equal((await container.replace({ ...resource, defaultTtl: 5 }, current)).statusCode, 200);
  await refused(container.delete(current), 412);
});

test("a name that is free again belongs to a new, empty container", async (t) => {
  const container = await freshContainer(t);
  const { resource: first } = await container.read();
  await container.items.create({ id: "1", pk: "a" });
  const { statusCode, resource } = await container.delete();
  assert.equal(statusCode, 204);
  assert.equal(resource, null);
  await refused(container.read(), 404);
  const second = await container.database.containers.create({ id: "c", partitionKey: "/pk" });
  assert.notEqual(second.resource._rid, first._rid);
  assert.equal((await second.container.item("1", "a").read()).statusCode, 404);
});

test("items of a missing container have no owner", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a" });
  await container.delete();
  await refused(container.items.create({ id: "2", pk: "a" }), 404, { sub: 1003 });
  await refused(container.items.readAll().fetchAll(), 404, { sub: 1003 });
  await refused(container.item("1", "a").delete(), 404, { sub: 1003 });
  const { statusCode, substatus, resource } = await container.item("1", "a").read();
  assert.deepEqual([statusCode, substatus, resource], [404, 1003, undefined]);
});

test("quota and usage are told when asked for", async (t) => {
  const container = await freshContainer(t);
  await container.items.create({ id: "1", pk: "a", text: "x".repeat(5000) });
  const { headers } = await container.read({ populateQuotaInfo: true });
  const pairs = (text) =>
    Object.fromEntries(
      text
        .split(";")
        .filter(Boolean)
        .map((pair) => pair.split("=")),
    );
  const quota = pairs(headers["x-ms-resource-quota"]);
  const usage = pairs(headers["x-ms-resource-usage"]);
  assert.equal(quota.collectionSize, "10485760");
  assert.equal(quota.documentsSize, "10485760");
  assert.equal(quota.documentsCount, "-1");
  assert.equal(usage.documentsCount, "1");
  assert.ok(Number(usage.documentsSize) >= 5);
  assert.equal(headers["x-ms-documentdb-collection-index-transformation-progress"], "100");
  assert.ok(!("x-ms-documentdb-collection-lazy-indexing-progress" in headers));
  const plain = await container.read();
  assert.ok(!("x-ms-resource-quota" in plain.headers));
});

test("the partition key definition is known after a create and after a read", async (t) => {
  const container = await freshContainer(t);
  const { resource } = await container.getPartitionKeyDefinition();
  assert.deepEqual(resource, { paths: ["/pk"], kind: "Hash" });
  const other = client.database(container.database.id).container("c");
  assert.deepEqual((await other.getPartitionKeyDefinition()).resource, resource);
});

for (const [throughput, count] of [
  [400, 1],
  [12000, 2],
  [30000, 5],
]) {
  test(`${throughput} request units make ${count} partition key range(s)`, async (t) => {
    const container = await freshContainer(t, { throughput });
    const { _self, _rid } = (await container.read()).resource;
    const { resources, headers } = await container.readPartitionKeyRanges().fetchAll();
    assert.equal(resources.length, count);
    assert.equal(resources[0].minInclusive, "");
    assert.equal(resources.at(-1).maxExclusive, "FF");
    resources.forEach((range, index) => {
      assert.equal(range.id, String(index));
      assert.equal(range.status, "online");
      assert.deepEqual(range.parents, []);
      assert.equal(range._self, `${_self}pkranges/${range._rid}/`);
      assert.match(range.maxExclusive, /^[0-9A-F]+$/);
      assert.ok(range.minInclusive < range.maxExclusive);
      if (index > 0) {
        assert.equal(range.minInclusive, resources[index - 1].maxExclusive);
      }
      const bytes = Buffer.from(range._rid.replaceAll("-", "/"), "base64");
      assert.deepEqual(bytes.subarray(0, 8), Buffer.from(_rid.replaceAll("-", "/"), "base64"));
      assert.equal(bytes[15] >> 4, 5);
    });
    assert.ok(headers);
    const feeds = await container.getFeedRanges();
    assert.deepEqual(
      feeds.map(({ minInclusive, maxExclusive }) => [minInclusive, maxExclusive]),
      resources.map(({ minInclusive, maxExclusive }) => [minInclusive, maxExclusive]),
    );
  });
}
