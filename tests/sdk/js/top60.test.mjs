// The sixty most frequent queries, over one range and over four, with items and without.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { freshDatabase, plain, refused } from "./support.mjs";

const { documents, cases } = JSON.parse(readFileSync(`${process.env.PERSEID_GOLDEN}/top60.json`, "utf-8"));
const byId = Object.fromEntries(documents.map((document) => [document.id, document]));

/** A value with its names sorted, so that equal values have equal texts. */
function sorted(value) {
  if (Array.isArray(value)) {
    return value.map(sorted);
  }
  if (value === null || typeof value !== "object") {
    return value;
  }
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  );
}

function text(row) {
  const isItem = row !== null && typeof row === "object" && "_rid" in row;
  return JSON.stringify(sorted(isItem ? plain(row) : row));
}

function spec({ query, parameters = {} }) {
  return { query, parameters: Object.entries(parameters).map(([name, value]) => ({ name, value })) };
}

async function check(container, one, ranges, filled, maxItemCount) {
  const options = maxItemCount ? { maxItemCount } : {};
  const { resources } = await container.items.query(spec(one), options).fetchAll();
  let expected = filled ? (one.ids?.map((id) => byId[id]) ?? one.rows) : (one.empty ?? []);
  const about = `${one.number}: ${one.query}, pages of ${maxItemCount}`;
  if (typeof expected === "number") {
    assert.equal(resources.length, expected, about);
    return;
  }
  let found = resources.map(text);
  expected = expected.map(text);
  const isOrdered = / ORDER BY /.test(one.query) && !(one.tied && ranges > 1);
  if (!isOrdered) {
    found = found.sort();
    expected = expected.sort();
  }
  assert.deepEqual(found, expected, about);
}

for (const [ranges, throughput] of [
  [1, 400],
  [4, 40000],
]) {
  for (const filled of [true, false]) {
    test(`${ranges} ranges, ${filled ? "with" : "without"} items`, async (t) => {
      const database = await freshDatabase(t);
      const { container } = await database.containers.create({ id: "c", partitionKey: "/pk", throughput });
      for (const document of filled ? documents : []) {
        await container.items.create(document);
      }
      for (const one of cases) {
        if (one.error) {
          await refused(container.items.query(spec(one)).fetchAll(), 400, { text: one.text });
        } else {
          await check(container, one, ranges, filled);
          await check(container, one, ranges, filled, 1);
        }
      }
    });
  }
}
