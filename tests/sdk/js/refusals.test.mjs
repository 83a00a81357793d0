// A strict server: this client asks for the plan, queries each range and merges the rows.

import assert from "node:assert/strict";
import test from "node:test";
import { freshContainer, refused } from "./support.mjs";

const COUNT = 12;
const rows = Array.from({ length: COUNT }, (_, n) => ({
  id: String(n).padStart(2, "0"),
  pk: `p${n}`,
  n,
  team: `t${n % 3}`,
}));

/** A container with several ranges. */
async function filled(t, body = {}) {
  const container = await freshContainer(t, { throughput: 40000, ...body });
  await Promise.all(rows.map((row) => container.items.create(row)));
  return container;
}

async function all(container, text, options) {
  return (await container.items.query(text, options).fetchAll()).resources;
}

test("what the client merges", async (t) => {
  const container = await filled(t);
  for (const [text, expected] of [
    ["SELECT VALUE c.n FROM c ORDER BY c.n DESC", rows.map(({ n }) => n).reverse()],
    ["SELECT TOP 2 VALUE c.n FROM c ORDER BY c.n", [0, 1]],
    ["SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 2", [3, 4]],
    ["SELECT VALUE COUNT(1) FROM c", [COUNT]],
    ["SELECT VALUE AVG(c.n) FROM c", [5.5]],
    ["SELECT VALUE MIN(c.n) FROM c", [0]],
    ["SELECT VALUE MAX(c.none) FROM c", []],
    ["SELECT COUNT(1) AS n FROM c", [{ n: COUNT }]],
  ]) {
    assert.deepEqual(await all(container, text), expected, text);
  }
  const distinct = await all(container, "SELECT DISTINCT VALUE c.team FROM c");
  assert.deepEqual(distinct.sort(), ["t0", "t1", "t2"]);
});

test("groups have every alias", async (t) => {
  const container = await filled(t);
  const text = "SELECT c.team, COUNT(1) AS n, AVG(c.none) AS mean, MIN(c.none) AS least FROM c GROUP BY c.team";
  const groups = await all(container, text);
  groups.sort((a, b) => (a.team < b.team ? -1 : 1));
  assert.deepEqual(groups.map(({ team, n }) => [team, n]), [["t0", 4], ["t1", 4], ["t2", 4]]);
  for (const group of groups) {
    assert.deepEqual(Object.keys(group).sort(), ["least", "mean", "n", "team"]);
    assert.equal(group.mean, undefined);
    assert.equal(group.least, undefined);
  }
});

test("several sort keys need a composite index", async (t) => {
  const text = "SELECT VALUE c.n FROM c ORDER BY c.team, c.n";
  const without = await filled(t);
  await refused(all(without, text), 400, { text: "does not have a corresponding composite index" });
  const paths = [{ path: "/team", order: "ascending" }, { path: "/n", order: "ascending" }];
  const indexed = await filled(t, { indexingPolicy: { compositeIndexes: [paths] } });
  assert.deepEqual(await all(indexed, text), [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
});

test("an expression of aggregates", async (t) => {
  const container = await filled(t);
  await refused(all(container, "SELECT VALUE COUNT(1) + 5 FROM c"), 400, { text: "Compositions of aggregates" });
  assert.deepEqual(await all(container, "SELECT VALUE COUNT(1) + 5 FROM c", { partitionKey: "p1" }), [6]);
});

test("full pages and their tokens", async (t) => {
  const container = await freshContainer(t);
  await Promise.all(rows.slice(0, 4).map((row) => container.items.create(row)));
  const iterator = container.items.query("SELECT * FROM c", { maxItemCount: 2 });
  const sizes = [];
  while (iterator.hasMoreResults()) {
    const { resources, continuationToken } = await iterator.fetchNext();
    sizes.push((resources ?? []).length);
    if (continuationToken) {
      const token = JSON.parse(continuationToken);
      assert.deepEqual(token.range, { min: "", max: "FF" });
      assert.equal(token.rangeMappings, undefined);
    }
  }
  assert.deepEqual(sizes, [2, 2, 0]);
});

test("tokens that cannot be read", async (t) => {
  const container = await freshContainer(t);
  const options = { maxItemCount: 1, continuationToken: "nonsense" };
  await refused(all(container, "SELECT * FROM c", options), 400, { text: "Invalid Continuation Token" });
});
