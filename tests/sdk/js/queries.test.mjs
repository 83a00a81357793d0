// Queries: parameters, pages, and the three ways to drain a query.

import assert from "node:assert/strict";
import test from "node:test";
import { answer, freshContainer, ids, refused } from "./support.mjs";

const COUNT = 25;
const rows = Array.from({ length: COUNT }, (_, n) => ({
  id: String(n).padStart(2, "0"),
  pk: `p${n % 3}`,
  n,
  even: n % 2 === 0,
  tags: [`t${n % 5}`, "all"],
  nested: { value: n / 2 },
}));

const ALL = rows.map(({ id }) => id);

async function filled(t, body) {
  const container = await freshContainer(t, body);
  await Promise.all(rows.map((row) => container.items.create(row)));
  return container;
}

test("readAll gives everything", async (t) => {
  const container = await filled(t);
  const { resources, requestCharge } = await container.items.readAll().fetchAll();
  assert.deepEqual(ids(resources), ALL);
  assert.ok(requestCharge > 0);
  const one = resources.find(({ id }) => id === "07");
  assert.deepEqual(one, (await container.item("07", "p1").read()).resource);
});

test("an empty container gives nothing", async (t) => {
  const container = await freshContainer(t);
  const { resources, hasMoreResults } = await container.items.readAll().fetchAll();
  assert.deepEqual(resources, []);
  assert.equal(hasMoreResults, false);
  assert.deepEqual(await answer(container, "SELECT VALUE COUNT(1) FROM c"), [0]);
});

for (const [size, lengths] of [
  [1, Array(COUNT).fill(1)],
  [10, [10, 10, 5]],
  [24, [24, 1]],
  [25, [25]],
  [100, [25]],
  [-1, [25]],
]) {
  test(`pages of ${size}`, async (t) => {
    const container = await filled(t);
    const iterator = container.items.query("SELECT * FROM c", { maxItemCount: size });
    const found = [];
    const seen = [];
    while (iterator.hasMoreResults()) {
      const { resources, continuationToken, hasMoreResults, requestCharge } = await iterator.fetchNext();
      assert.equal(Boolean(continuationToken), hasMoreResults);
      assert.ok((continuationToken ?? "").length <= 1024);
      assert.ok(requestCharge > 0);
      if (resources.length > 0) {
        seen.push(resources.length);
        found.push(...resources);
      }
    }
    assert.deepEqual(seen, lengths);
    assert.deepEqual(ids(found), ALL);
  });
}

test("a query goes on from its token, in another iterator", async (t) => {
  const container = await filled(t);
  for (const end of ["", "ORDER BY c.n DESC", "WHERE c.n >= 0"]) {
    const query = `SELECT * FROM c ${end}`;
    const found = [];
    let continuationToken;
    do {
      const page = await container.items.query(query, { maxItemCount: 4, continuationToken }).fetchNext();
      found.push(...page.resources);
      ({ continuationToken } = page);
    } while (continuationToken);
    assert.deepEqual(ids(found), ALL);
  }
});

test("a token that is none is refused", async (t) => {
  const container = await filled(t);
  const options = { maxItemCount: 4, continuationToken: "nonsense" };
  await refused(container.items.query("SELECT * FROM c", options).fetchNext(), 400);
});

test("the async iterator gives pages", async (t) => {
  const container = await filled(t);
  const lengths = [];
  const found = [];
  const iterator = container.items.query("SELECT * FROM c", { maxItemCount: 9 });
  for await (const { resources } of iterator.getAsyncIterator()) {
    lengths.push(resources.length);
    found.push(...resources);
  }
  assert.deepEqual(lengths.filter(Boolean), [9, 9, 7]);
  assert.deepEqual(ids(found), ALL);
});

test("pages that are fetched ahead are the same pages", async (t) => {
  const container = await filled(t);
  const options = { maxItemCount: 6, bufferItems: true };
  const { resources } = await container.items.query("SELECT * FROM c", options).fetchAll();
  assert.deepEqual(ids(resources), ALL);
});

test("a writer between two pages disturbs neither", async (t) => {
  const container = await filled(t);
  const iterator = container.items.query("SELECT * FROM c", { maxItemCount: 10 });
  const { resources: first } = await iterator.fetchNext();
  await container.item(first[0].id, first[0].pk).delete();
  await container.items.create({ id: "new", pk: "p0" });
  const rest = [];
  while (iterator.hasMoreResults()) {
    rest.push(...(await iterator.fetchNext()).resources);
  }
  const expected = ALL.filter((id) => !first.some((each) => each.id === id));
  assert.deepEqual(
    ids(rest).filter((id) => id !== "new"),
    expected,
  );
});

const QUERIES = [
  ["an equality", "SELECT VALUE c.id FROM c WHERE c.n = @n", { n: 7 }, ["07"]],
  [
    "a range",
    "SELECT VALUE c.id FROM c WHERE c.n >= @low AND c.n < @high ORDER BY c.n",
    { low: 3, high: 6 },
    ["03", "04", "05"],
  ],
  ["a boolean", "SELECT VALUE COUNT(1) FROM c WHERE c.even = @even", { even: true }, [13]],
  ["a text", "SELECT VALUE COUNT(1) FROM c WHERE c.pk = @pk", { pk: "p0" }, [9]],
  ["a null", "SELECT VALUE COUNT(1) FROM c WHERE c.n = @none", { none: null }, [0]],
  [
    "an array",
    "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@ids, c.id) ORDER BY c.id",
    { ids: ["01", "24", "99"] },
    ["01", "24"],
  ],
  ["an object", "SELECT VALUE c.id FROM c WHERE c.nested = @nested", { nested: { value: 4 } }, ["08"]],
  [
    "a projection",
    "SELECT c.id, c.nested['value'] AS half FROM c WHERE c.n = 3",
    {},
    [{ id: "03", half: 1.5 }],
  ],
  [
    "an object constructor",
    "SELECT VALUE {x: c.n, y: [c.pk]} FROM c WHERE c.n = 4",
    {},
    [{ x: 4, y: ["p1"] }],
  ],
  [
    "a parameter as value",
    "SELECT VALUE @p FROM c WHERE c.n = 0",
    { p: { deep: ["x", null] } },
    [{ deep: ["x", null] }],
  ],
  ["order, descending", "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC", {}, [24, 23, 22]],
  ["offset and limit", "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 2", {}, [5, 6]],
  [
    "offset and limit as parameters",
    "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET @o LIMIT @l",
    { o: 20, l: 3 },
    [20, 21, 22],
  ],
  [
    "aggregates",
    "SELECT COUNT(1) AS n, SUM(c.n) AS s, MIN(c.n) AS low, MAX(c.n) AS high, AVG(c.n) AS mean FROM c",
    {},
    [{ n: 25, s: 300, low: 0, high: 24, mean: 12 }],
  ],
  ["distinct values", "SELECT DISTINCT VALUE c.pk FROM c ORDER BY c.pk", {}, ["p0", "p1", "p2"]],
  ["a join", "SELECT VALUE COUNT(1) FROM c JOIN tag IN c.tags WHERE tag = 't0'", {}, [5]],
  [
    "a function",
    "SELECT VALUE UPPER(c.pk) FROM c WHERE STARTSWITH(c.id, '2') AND c.even ORDER BY c.id",
    {},
    ["P2", "P1", "P0"],
  ],
  [
    "a subquery",
    "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 't4') AND c.n < 10 ORDER BY c.id",
    {},
    ["04", "09"],
  ],
  ["IN", "SELECT VALUE c.id FROM c WHERE c.n IN (1, @n, 'x') ORDER BY c.id", { n: 2 }, ["01", "02"]],
  ["LIKE", "SELECT VALUE c.id FROM c WHERE c.id LIKE '1%' AND c.n > 17 ORDER BY c.id", {}, ["18", "19"]],
  ["no rows", "SELECT * FROM c WHERE c.missing = 1", {}, []],
  ["no container", "SELECT VALUE 1 + 1", {}, [2]],
];
for (const [title, query, parameters, expected] of QUERIES) {
  test(`a query with ${title}`, async (t) => {
    assert.deepEqual(await answer(await filled(t), query, parameters), expected);
  });
}

test("groups are counted", async (t) => {
  const found = await answer(await filled(t), "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk");
  found.sort((a, b) => a.pk.localeCompare(b.pk));
  assert.deepEqual(found, [
    { pk: "p0", n: 9 },
    { pk: "p1", n: 8 },
    { pk: "p2", n: 8 },
  ]);
});

test("ordered results keep their order over pages and ranges", async (t) => {
  const container = await filled(t, { throughput: 18000 });
  const found = await answer(container, "SELECT VALUE c.n FROM c ORDER BY c.n", {}, { maxItemCount: 4 });
  assert.deepEqual(
    found,
    rows.map(({ n }) => n),
  );
});

test("one partition can be asked alone", async (t) => {
  const container = await filled(t);
  const options = { partitionKey: "p1" };
  assert.deepEqual(await answer(container, "SELECT VALUE COUNT(1) FROM c", {}, options), [8]);
  const found = (await container.items.readAll(options).fetchAll()).resources;
  assert.deepEqual(
    ids(found),
    rows.filter(({ pk }) => pk === "p1").map(({ id }) => id),
  );
});

test("a query can be plain text or a spec without parameters", async (t) => {
  const container = await filled(t);
  assert.equal((await container.items.query("SELECT * FROM c").fetchAll()).resources.length, COUNT);
  assert.equal(
    (await container.items.query({ query: "SELECT * FROM c" }).fetchAll()).resources.length,
    COUNT,
  );
});

for (const [title, query, code] of [
  ["nonsense", "SELEC * FROM c", "SC1001"],
  ["a missing expression", "SELECT * FROM c WHERE", "SC1002"],
  ["an unterminated string", "SELECT * FROM c WHERE c.id = 'x", ""],
  ["an unknown name", "SELECT * FROM c WHERE d.id = 1", "SC2001"],
  ["an unknown function", "SELECT NOSUCH(c.id) FROM c", "SC2005"],
  ["an empty text", "", ""],
]) {
  test(`${title} is refused, with the reason`, async (t) => {
    const container = await freshContainer(t);
    await refused(container.items.query({ query }).fetchAll(), 400, { text: code });
  });
}

test("metrics are told when asked for", async (t) => {
  const container = await filled(t);
  const options = { populateQueryMetrics: true, maxItemCount: 100 };
  const { queryMetrics } = await container.items.query("SELECT * FROM c", options).fetchNext();
  assert.equal(queryMetrics["0"].retrievedDocumentCount, COUNT);
  assert.equal(queryMetrics["0"].outputDocumentCount, COUNT);
  assert.ok(queryMetrics["0"].retrievedDocumentSize > 0);
  const without = await container.items.query("SELECT * FROM c").fetchNext();
  assert.equal(without.queryMetrics, undefined);
});
