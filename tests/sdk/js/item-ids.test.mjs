// Ids of items: each must survive create, read, replace, query and delete.

import assert from "node:assert/strict";
import test from "node:test";
import { answer, freshContainer, refused } from "./support.mjs";

// The client sends no `.`, `..` or `?` at the end as such: its URL parser resolves or drops them.
const IDS = [
  ["plain", "id"],
  ["leading spaces", "   led"],
  ["a trailing space", "ended "],
  ["inner spaces", "one two  three"],
  ["unicode", "WithUnicode鱀-é-😀"],
  ["decomposed unicode", "e\u0301"],
  ["allowed punctuation", "WithAllowedSpecial,=.:~+-@()^${}[]!_Chars"],
  ["other punctuation", "a&b;c'd\"e`f|g<h>i*j"],
  ["carriage returns", "With\rCarriage"],
  ["tabs", "With\tTab"],
  ["line feeds", "With\nLine"],
  ["all three", "a\r\t\nb"],
  ["a literal %20", "With%20Percent"],
  ["a literal %2F", "With%2FSlash"],
  ["a lone percent", "100%"],
  ["percent nonsense", "%zz%"],
  ["a plus", "a+b"],
  ["a question mark", "With?Question"],
  ["a question mark at the start", "?Led"],
  ["several question marks", "a?b=c&d?e"],
  ["a question mark among others", "Is it? 100% é+?"],
  ["a dotted path", "...a..b."],
  ["json", '{"a":[1]}'],
  ["looks like a rid", "AQAAAA=="],
  ["a number", "0"],
  ["the longest", "x".repeat(1023)],
];
for (const [title, id] of IDS) {
  test(`${title} round-trips`, async (t) => {
    const container = await freshContainer(t);
    const created = await container.items.create({ id, pk: "a" });
    assert.equal(created.statusCode, 201);
    assert.equal(created.resource.id, id);
    const item = container.item(id, "a");
    const read = await item.read();
    assert.equal(read.statusCode, 200);
    assert.deepEqual(read.resource, created.resource);
    const replaced = await item.replace({ id, pk: "a", n: 1 });
    assert.equal(replaced.statusCode, 200);
    assert.equal(replaced.resource._rid, created.resource._rid);
    const upserted = await container.items.upsert({ id, pk: "a", n: 2 });
    assert.equal(upserted.statusCode, 200);
    const found = await answer(container, "SELECT * FROM c WHERE c.id = @id", { id });
    assert.deepEqual(found, [upserted.resource]);
    assert.equal((await item.delete()).statusCode, 204);
    assert.equal((await item.read()).statusCode, 404);
  });
}

test("ids that only look alike are different items", async (t) => {
  const container = await freshContainer(t);
  const alike = ["a", "A", "a ", " a", "a+", "a%20", "a?b", "a%3Fb", "\u00e9", "e\u0301"];
  for (const id of alike) {
    assert.equal((await container.items.create({ id, pk: "p" })).statusCode, 201, JSON.stringify(id));
  }
  for (const id of alike) {
    assert.equal((await container.item(id, "p").read()).resource?.id, id, JSON.stringify(id));
  }
});

const text = "less than '1024' characters.";
for (const [title, id] of [
  ["1024 characters", "x".repeat(1024)],
  ["1023 characters that are more bytes", "é".repeat(1023)],
]) {
  test(`${title} are too long`, async (t) => {
    const container = await freshContainer(t);
    await refused(container.items.create({ id, pk: "a" }), 400, { text });
    await refused(container.items.upsert({ id, pk: "a" }), 400, { text });
  });
}
