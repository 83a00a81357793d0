// Patches: every operation, conditions, etags, and what is refused.

import assert from "node:assert/strict";
import test from "node:test";
import { freshContainer, plain, refused } from "./support.mjs";

const ITEM = { id: "1", pk: "a", n: 1, list: [1, 2], part: { x: true } };

async function filled(t) {
  const container = await freshContainer(t);
  await container.items.create(structuredClone(ITEM));
  return container;
}

test("every operation", async (t) => {
  const container = await filled(t);
  const { resource, statusCode } = await container.item("1", "a").patch([
    { op: "add", path: "/list/0", value: 0 },
    { op: "add", path: "/list/-", value: 3 },
    { op: "set", path: "/name", value: "x" },
    { op: "replace", path: "/part/x", value: null },
    { op: "incr", path: "/n", value: 1.5 },
    { op: "move", from: "/name", path: "/part/name" },
    { op: "remove", path: "/list/1" },
  ]);
  assert.equal(statusCode, 200);
  assert.deepEqual(plain(resource), {
    id: "1",
    pk: "a",
    n: 2.5,
    list: [0, 2, 3],
    part: { x: null, name: "x" },
  });
  assert.deepEqual((await container.item("1", "a").read()).resource, resource);
});

test("a condition that is met, and one that is not", async (t) => {
  const container = await filled(t);
  const operations = [{ op: "incr", path: "/n", value: 1 }];
  const condition = "from c where c.n = 1";
  const { resource } = await container.item("1", "a").patch({ operations, condition });
  assert.equal(resource.n, 2);
  await refused(container.item("1", "a").patch({ operations, condition }), 412);
  await refused(container.item("1", "a").patch({ operations, condition: "c.n = 2" }), 400);
});

test("etags", async (t) => {
  const container = await filled(t);
  const operations = [{ op: "incr", path: "/n", value: 1 }];
  const { resource } = await container.item("1", "a").read();
  const accessCondition = { type: "IfMatch", condition: resource._etag };
  await container.item("1", "a").patch(operations, { accessCondition });
  await refused(container.item("1", "a").patch(operations, { accessCondition }), 412);
});

test("what cannot be patched", async (t) => {
  const container = await filled(t);
  const item = container.item("1", "a");
  const operation = { op: "set", path: "/n", value: 2 };
  await refused(item.patch(Array(11).fill(operation)), 400, { text: "more than the 10" });
  await refused(item.patch([operation, { op: "remove", path: "/no" }]), 400, { text: "For Operation(2)" });
  for (const path of ["/id", "/pk", "/_ts", "/_etag"]) {
    await refused(item.patch([{ op: "set", path, value: "b" }]), 400, { text: path });
  }
  await refused(container.item("2", "a").patch([operation]), 404);
  assert.deepEqual(plain((await item.read()).resource), ITEM);
});
