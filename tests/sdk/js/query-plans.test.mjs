// Queries that the client itself runs on every range by the server's plan and merges: the rows must
// be those that the server gives directly.

import assert from "node:assert/strict";
import test, { before, after } from "node:test";
import { client, freshContainer, name, refused, spec } from "./support.mjs";

const COUNT = 24;
const rows = Array.from({ length: COUNT }, (_, n) => ({
  id: `i${String(n).padStart(2, "0")}`,
  pk: `p${n}`,
  n,
  back: COUNT - n,
  team: `t${n % 4}`,
  half: Math.floor(n / 2),
  tags: n % 3 === 0 ? ["x", `y${n % 2}`] : [],
  ...(n % 5 === 0 ? {} : { some: n % 7 }),
}));

const containers = {};

before(async () => {
  const { database } = await client.databases.create({ id: name() });
  containers.database = database;
  for (const [ranges, throughput] of [[1, 400], [4, 24000]]) {
    const { container } = await database.containers.create({
      id: `ranges${ranges}`,
      partitionKey: { paths: ["/pk"], version: 2 },
      throughput,
    });
    await Promise.all(rows.map((row) => container.items.create(row)));
    containers[ranges] = container;
  }
});

after(() => containers.database.delete());

/** All rows, page by page, as the server gives them or as the client merges them. */
async function drained(container, query, options) {
  const iterator = container.items.query(query, options);
  const found = [];
  for (let pages = 0; iterator.hasMoreResults(); pages += 1) {
    assert.ok(pages < 500, "the query does not end");
    const { resources = [] } = await iterator.fetchNext();
    assert.ok(resources.length <= (options.maxItemCount ?? Infinity));
    found.push(...resources);
  }
  return found;
}

// Where rows have no order of their own, that of the merge may differ.
const sorted = (found) => found.map((row) => JSON.stringify(row)).sort();

const ORDERED = [
  "SELECT * FROM c ORDER BY c.n",
  "SELECT * FROM c ORDER BY c.n DESC",
  "SELECT * FROM c WHERE c.n > 5 AND c.n < 20 ORDER BY c.back",
  "SELECT c.id, c.n + 1 FROM c ORDER BY c.id DESC",
  "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
  "SELECT VALUE c.id FROM c ORDER BY c.team, c.n DESC",
  "SELECT VALUE c.id FROM c ORDER BY c.team DESC, c.half, c.n",
  "SELECT TOP 7 * FROM c ORDER BY c.n DESC",
  "SELECT TOP @seven VALUE c.n FROM c ORDER BY c.n",
  "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 10",
  "SELECT VALUE c.n FROM c ORDER BY c.back OFFSET @seven LIMIT @seven",
  "SELECT VALUE c.n FROM c WHERE c.pk = 'p3' ORDER BY c.n",
  "SELECT VALUE c.n FROM c WHERE c.pk IN ('p3', 'p8', 'p9') ORDER BY c.n",
  "SELECT VALUE c.n FROM c WHERE c.n >= @seven ORDER BY c.n",
  "SELECT VALUE c.some FROM c ORDER BY c.n",
  "SELECT c.n, t FROM c JOIN t IN c.tags ORDER BY c.n, t",
  "SELECT VALUE t FROM t IN c.tags ORDER BY t",
  "SELECT DISTINCT VALUE c.team FROM c ORDER BY c.team",
  "SELECT DISTINCT VALUE c.team FROM c ORDER BY c.team DESC",
  "SELECT DISTINCT c.team FROM c ORDER BY c.team OFFSET 1 LIMIT 2",
  "SELECT DISTINCT c.team, c.half FROM c ORDER BY c.half, c.team",
  "SELECT DISTINCT VALUE c.team FROM c ORDER BY c.n",
  "SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) + 1 FROM c ORDER BY c.n",
];

const UNORDERED = [
  "SELECT * FROM c",
  "SELECT c.id, c.n FROM c WHERE c.n > 10",
  "SELECT VALUE c.n FROM c WHERE c.pk = 'p3'",
  "SELECT VALUE c.n FROM c WHERE c.pk = 'p3' OFFSET 0 LIMIT 1",
  "SELECT VALUE c.n FROM c WHERE false",
  "SELECT 1",
  "SELECT DISTINCT c.team FROM c",
  "SELECT DISTINCT VALUE c.team FROM c",
  "SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags",
  ...["COUNT", "SUM", "AVG", "MIN", "MAX"].map((each) => `SELECT VALUE ${each}(c.n) FROM c`),
  ...["MIN", "MAX", "AVG", "SUM"].map((each) => `SELECT VALUE ${each}(c.some) FROM c`),
  "SELECT VALUE MAX(c.id) FROM c",
  "SELECT VALUE COUNTIF(c.n > @seven) FROM c",
  "SELECT VALUE COUNT(1) FROM c WHERE c.n > 1000",
  "SELECT VALUE MIN(c.n) FROM c WHERE c.n > 1000",
  "SELECT VALUE AVG(c.n) FROM c WHERE c.n > 1000",
  "SELECT VALUE SUM(c.team) FROM c",
  "SELECT COUNT(1) FROM c",
  "SELECT COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.n) AS lo, MAX(c.n) AS hi FROM c",
  "SELECT c.team, COUNT(1) AS n FROM c GROUP BY c.team",
  "SELECT c.team, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.n) AS lo, MAX(c.n) AS hi FROM c GROUP BY c.team",
  "SELECT VALUE COUNT(1) FROM c GROUP BY c.team",
  "SELECT VALUE MAX(c.n) FROM c GROUP BY c.team",
  "SELECT VALUE c.team FROM c GROUP BY c.team",
  "SELECT c.team, c.half, COUNT(1) AS n FROM c GROUP BY c.team, c.half",
  "SELECT UPPER(c.team) AS team, COUNT(1) AS n FROM c GROUP BY UPPER(c.team)",
  "SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t",
];

// How many rows there are is certain, which of them is not.
const WINDOWS = [
  ["SELECT TOP 7 * FROM c", 7],
  ["SELECT TOP @seven VALUE c.n FROM c", 7],
  ["SELECT * FROM c OFFSET 5 LIMIT 10", 10],
  ["SELECT * FROM c OFFSET 20 LIMIT 10", 4],
  ["SELECT DISTINCT TOP 3 VALUE c.team FROM c", 3],
  ["SELECT TOP 2 c.team, COUNT(1) AS n FROM c GROUP BY c.team", 2],
  ["SELECT c.team FROM c GROUP BY c.team OFFSET 1 LIMIT 2", 2],
  ["SELECT TOP 0 * FROM c", 0],
];

for (const ranges of [1, 4]) {
  for (const maxItemCount of [undefined, 1]) {
    const title = `${ranges} range(s), pages of ${maxItemCount ?? "any size"}`;
    const both = async (text) => {
      const query = spec(text, { seven: 7 });
      const direct = await drained(containers[ranges], query, { maxItemCount });
      const merged = await drained(containers[ranges], query, { maxItemCount, forceQueryPlan: true });
      return [merged, direct];
    };

    test(`sorted queries over ${title}`, async () => {
      for (const text of ORDERED) {
        const [merged, direct] = await both(text);
        assert.deepEqual(merged, direct, text);
      }
    });

    test(`unsorted queries over ${title}`, async () => {
      for (const text of UNORDERED) {
        const [merged, direct] = await both(text);
        assert.deepEqual(sorted(merged), sorted(direct), text);
      }
    });

    test(`windows over ${title}`, async () => {
      for (const [text, count] of WINDOWS) {
        const [merged, direct] = await both(text);
        assert.equal(merged.length, count, text);
        assert.equal(direct.length, count, text);
        assert.equal(new Set(sorted(merged)).size, count, text);
      }
    });
  }
}

// With several keys the client resumes by a filter that asks too much of the later ones.
for (const ranges of [1, 4]) {
  for (const text of [
    "SELECT * FROM c",
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
    "SELECT VALUE c.n FROM c ORDER BY c.half",
    "SELECT VALUE c.n FROM c WHERE c.n > 3 ORDER BY c.team DESC",
  ]) {
    test(`a merged query goes on from its token over ${ranges} range(s): ${text}`, async () => {
      const container = containers[ranges];
      const found = [];
      let continuationToken;
      do {
        const options = { maxItemCount: 3, enableQueryControl: true, forceQueryPlan: true, continuationToken };
        const page = await container.items.query(text, options).fetchNext();
        found.push(...page.resources);
        ({ continuationToken } = page);
        assert.ok(found.length <= COUNT, "rows come twice");
      } while (continuationToken);
      const direct = await drained(container, text, {});
      assert.deepEqual(sorted(found), sorted(direct));
    });
  }
}

// The client's own merge refuses keys of several types; the server does not.
const MIXED = [undefined, null, false, true, 0, 1.5, "", "a", undefined, null, 7, "b"];

for (const throughput of [400, 24000]) {
  test(`keys of all types, page by page, with ${throughput} RU/s`, async (t) => {
    const container = await freshContainer(t, { throughput });
    await Promise.all(
      MIXED.map((key, n) => container.items.create({ id: String(n), pk: String(n), key, n })),
    );
    const ascending = await drained(container, "SELECT VALUE c.n FROM c ORDER BY c.key, c.n", { maxItemCount: 1 });
    assert.deepEqual(ascending, [0, 8, 1, 9, 2, 3, 4, 5, 10, 6, 7, 11]);
    const descending = await drained(container, "SELECT VALUE c.n FROM c ORDER BY c.key DESC, c.n DESC", {
      maxItemCount: 1,
    });
    assert.deepEqual(descending, ascending.toReversed());
    if (throughput === 400) {
      const merged = await drained(container, "SELECT VALUE c.n FROM c ORDER BY c.key, c.n", {
        maxItemCount: 1,
        forceQueryPlan: true,
      });
      assert.deepEqual(merged, ascending);
    }
  });
}

test("a query that cannot be merged is answered directly, and refused as a plan", async () => {
  const text = "SELECT VALUE {n: COUNT(1)} FROM c";
  const container = containers[4];
  assert.deepEqual(await drained(container, text, {}), [{ n: COUNT }]);
  const planned = container.items.query(text, { forceQueryPlan: true }).fetchAll();
  await refused(planned, 400, { text: "Compositions of aggregates" });
  assert.deepEqual(await drained(containers[1], text, { forceQueryPlan: true }), [{ n: COUNT }]);
});

test("index metrics", async () => {
  const { indexMetrics } = await containers[1].items
    .query("SELECT * FROM c WHERE c.team = 't1' AND c.n > 5", { populateIndexMetrics: true })
    .fetchNext();
  assert.deepEqual(JSON.parse(indexMetrics), {
    UtilizedIndexes: {
      SingleIndexes: [{ IndexSpec: "/team/?" }, { IndexSpec: "/n/?" }],
      CompositeIndexes: [],
    },
    PotentialIndexes: {
      SingleIndexes: [],
      CompositeIndexes: [{ IndexSpecs: ["/team ASC", "/n ASC"], IndexImpactScore: "High" }],
    },
  });
});
