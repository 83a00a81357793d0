// Partition keys of every form, in both hash versions, nested and hierarchical.

import assert from "node:assert/strict";
import test from "node:test";
import { answer, client, freshContainer, ids, refused } from "./support.mjs";

const VERSIONS = [
  ["version 1", "/pk"],
  ["version 2", { paths: ["/pk"], kind: "Hash", version: 2 }],
];
const MISSING = Symbol("no key");
const KEYS = [
  ["a string", "WA"],
  ["an empty string", ""],
  ["a string with quotes", `it's "so"`],
  ["unicode", "Zürich-日本-😀"],
  ["control characters", "a\u0000\r\n\tb"],
  ["an integer", 5],
  ["zero", 0],
  ["a negative number", -1],
  ["a fraction", 12313.1221],
  ["a large number", 2 ** 53],
  ["a huge number", 1e300],
  ["true", true],
  ["false", false],
  ["null", null],
  ["nothing", MISSING],
];
const withKey = (body, pk) => (pk === MISSING ? body : { ...body, pk });
const given = (pk) => (pk === MISSING ? undefined : pk);

for (const [version, partitionKey] of VERSIONS) {
  for (const [title, pk] of KEYS) {
    test(`${title} is a key, ${version}`, async (t) => {
      const container = await freshContainer(t, { partitionKey: structuredClone(partitionKey) });
      const { statusCode, item } = await container.items.create(withKey({ id: "1" }, pk));
      assert.equal(statusCode, 201);
      assert.equal((await item.read()).statusCode, 200);
      const addressed = container.item("1", given(pk));
      assert.equal((await addressed.read()).statusCode, 200);
      assert.equal((await addressed.replace(withKey({ id: "1", n: 1 }, pk))).statusCode, 200);
      assert.equal((await container.items.upsert(withKey({ id: "1", n: 2 }, pk))).statusCode, 200);
      const { resource } = await addressed.read();
      assert.equal(resource.n, 2);
      assert.equal("pk" in resource, pk !== MISSING);
      assert.equal((await addressed.delete()).statusCode, 204);
    });
  }

  test(`keys of different types are different partitions, ${version}`, async (t) => {
    const container = await freshContainer(t, { partitionKey: structuredClone(partitionKey) });
    const values = [MISSING, null, true, false, 0, 1, -1, 1.5, "", "0", "1", "true", "null", "{}"];
    for (const [n, pk] of values.entries()) {
      assert.equal((await container.items.create(withKey({ id: "1", n }, pk))).statusCode, 201);
    }
    for (const [n, pk] of values.entries()) {
      assert.equal((await container.item("1", given(pk)).read()).resource.n, n);
    }
    for (const [n, pk] of values.entries()) {
      if (pk !== MISSING) {
        assert.deepEqual(await answer(container, "SELECT VALUE c.n FROM c", {}, { partitionKey: pk }), [n]);
      }
    }
    assert.equal((await container.items.readAll().fetchAll()).resources.length, values.length);
  });

  test(`many ranges hold what one range would, ${version}`, async (t) => {
    const container = await freshContainer(t, {
      partitionKey: structuredClone(partitionKey),
      throughput: 18000,
    });
    const used = new Set();
    const names = Array.from({ length: 40 }, (_, n) => `key-${n}`);
    for (const pk of names) {
      const { headers } = await container.items.create({ id: "1", pk });
      used.add(headers["x-ms-documentdb-partitionkeyrangeid"]);
      assert.match(headers["x-ms-session-token"], /^[0-4]:-1#\d+$/);
    }
    assert.ok(used.size > 1);
    assert.ok([...used].every((id) => /^[0-4]$/.test(id)));
    for (const pk of names) {
      assert.equal((await container.item("1", pk).read()).resource.pk, pk);
    }
    assert.deepEqual((await answer(container, "SELECT VALUE c.pk FROM c")).sort(), names.sort());
    const pages = [];
    for await (const page of container.items.readAll({ maxItemCount: 7 }).getAsyncIterator()) {
      assert.ok(page.resources.length <= 7);
      pages.push(...page.resources);
    }
    assert.deepEqual(pages.map(({ pk }) => pk).sort(), names.sort());
  });
}

test("the id may be the key", async (t) => {
  const container = await freshContainer(t, { partitionKey: "/id" });
  await container.items.create({ id: "1" });
  assert.equal((await container.item("1", "1").read()).resource.id, "1");
  await refused(container.items.create({ id: "1" }), 409);
  await refused(container.item("1", "1").replace({ id: "2" }), 400, { sub: 1001 });
});

for (const [path, body, key] of [
  ["/a/b", { a: { b: "x" } }, "x"],
  ["/a/b/c", { a: { b: { c: 7 } } }, 7],
  ["/a/b", { a: {} }, undefined],
  ["/a/b", { a: "no object" }, undefined],
  ["/a/b", { a: { b: null } }, null],
  ['/"odd name"/"x-y"', { "odd name": { "x-y": "z" } }, "z"],
]) {
  test(`the key at ${path} of ${JSON.stringify(body)} is ${JSON.stringify(key)}`, async (t) => {
    const container = await freshContainer(t, { partitionKey: path });
    const { item } = await container.items.create({ id: "1", ...body });
    assert.equal((await item.read()).statusCode, 200);
    assert.equal((await container.item("1", key).read()).statusCode, 200);
    assert.equal((await container.item("1", "elsewhere").read()).statusCode, 404);
  });
}

for (const pk of [{ x: 1 }, [1], []]) {
  test(`${JSON.stringify(pk)} is no key`, async (t) => {
    const container = await freshContainer(t);
    const error = await container.items.create({ id: "1", pk }).catch((reason) => reason);
    assert.equal(error.code, 400);
    assert.deepEqual((await container.items.readAll().fetchAll()).resources, []);
  });
}

test("a key in the header that the item does not have is refused", async (t) => {
  const container = await freshContainer(t);
  const text = "Partition key provided either doesn't correspond to definition in the collection";
  for (const wrong of ["b", 1, null, undefined]) {
    const { id } = (await container.items.create({ pk: "a" })).resource;
    const error = await container
      .item(id, wrong)
      .replace({ id, pk: "a" })
      .catch((reason) => reason);
    assert.equal(error.code, 400);
    assert.equal(error.substatus, 1001);
    assert.ok(error.message.includes(text));
  }
});

const LEVELS = [
  [
    "two levels",
    ["/state", "/city"],
    [
      ["WA", "Redmond"],
      ["WA", "Seattle"],
      ["OR", "Redmond"],
    ],
  ],
  [
    "three levels",
    ["/state", "/city", "/zip"],
    [
      ["WA", "Redmond", 1],
      ["WA", "Redmond", "1"],
      ["WA", "Seattle", 1],
      ["OR", "Redmond", 1],
    ],
  ],
  [
    "nested levels",
    ["/at/state", "/at/city"],
    [
      ["WA", "Redmond"],
      ["WA", "Seattle"],
    ],
  ],
  [
    "levels of every type",
    ["/a", "/b", "/c"],
    [
      ["x", null, true],
      ["x", null, false],
      ["x", 0, 1.5],
      ["x", "", "é"],
    ],
  ],
];
const hierarchical = (paths) => ({ partitionKey: { paths: [...paths], kind: "MultiHash", version: 2 } });

/** An item that has the values at the paths; undefined leaves a level out. */
function placed(paths, values, body) {
  const item = structuredClone(body);
  paths.forEach((path, level) => {
    const names = path.slice(1).split("/");
    const last = names.pop();
    const parent = names.reduce((object, each) => (object[each] ??= {}), item);
    if (values[level] !== undefined) {
      parent[last] = values[level];
    }
  });
  return item;
}

for (const [title, paths, keys] of LEVELS) {
  test(`${title} make a key`, async (t) => {
    const container = await freshContainer(t, hierarchical(paths));
    for (const [n, values] of keys.entries()) {
      const { statusCode, item } = await container.items.create(placed(paths, values, { id: "1", n }));
      assert.equal(statusCode, 201);
      assert.equal((await item.read()).resource.n, n);
    }
    for (const [n, values] of keys.entries()) {
      const item = container.item("1", values);
      assert.equal((await item.read()).resource.n, n);
      assert.deepEqual(await answer(container, "SELECT VALUE c.n FROM c", {}, { partitionKey: values }), [n]);
      assert.equal((await item.replace(placed(paths, values, { id: "1", n: n + 10 }))).statusCode, 200);
    }
    const found = await answer(container, "SELECT VALUE c.n FROM c");
    assert.deepEqual(
      found.sort(),
      keys.map((_, n) => n + 10),
    );
    for (const values of keys) {
      assert.equal((await container.item("1", values).delete()).statusCode, 204);
    }
  });
}

test("a level may be missing", async (t) => {
  const paths = ["/state", "/city", "/zip"];
  const container = await freshContainer(t, hierarchical(paths));
  const keys = [
    ["WA", "Redmond", undefined],
    ["WA", undefined, undefined],
    [undefined, undefined, undefined],
    ["WA", undefined, 1],
  ];
  for (const [n, values] of keys.entries()) {
    const { item } = await container.items.create(placed(paths, values, { id: "1", n }));
    assert.equal((await item.read()).resource.n, n);
  }
  for (const [n, values] of keys.entries()) {
    assert.equal((await container.item("1", values).read()).resource.n, n);
  }
  assert.equal((await container.item("1").read()).resource.n, 2);
});

test("a part of a key is enough for a query, not for an item", async (t) => {
  const paths = ["/state", "/city", "/zip"];
  const container = await freshContainer(t, hierarchical(paths));
  const keys = [
    ["WA", "Redmond", 1],
    ["WA", "Redmond", 2],
    ["WA", "Seattle", 1],
    ["OR", "Redmond", 1],
  ];
  for (const [n, values] of keys.entries()) {
    await container.items.create(placed(paths, values, { id: `${n}` }));
  }
  for (const [partitionKey, found] of [
    [["WA"], ["0", "1", "2"]],
    [
      ["WA", "Redmond"],
      ["0", "1"],
    ],
    [["WA", "Redmond", 2], ["1"]],
    [["CA"], []],
  ]) {
    assert.deepEqual(ids(await answer(container, "SELECT * FROM c", {}, { partitionKey })), found);
  }
  for (const short of [["WA"], ["WA", "Redmond"]]) {
    await refused(container.item("0", short).read(), 400, { sub: 1001 });
    await refused(container.item("0", short).delete(), 400, { sub: 1001 });
  }
});

test("a key with too many levels is refused", async (t) => {
  const container = await freshContainer(t);
  const read = await container
    .item("1", ["a", "b"])
    .read()
    .catch((reason) => reason);
  assert.equal(read.code, 400);
  const query = container.items.query("SELECT * FROM c", { partitionKey: ["a", "b"] });
  const listed = await query.fetchAll().catch((reason) => reason);
  assert.equal(listed.code, 400);
});

test("a client that did not make the container finds the key itself", async (t) => {
  const container = await freshContainer(t, hierarchical(["/state", "/city"]));
  const other = client.database(container.database.id).container(container.id);
  const { item } = await other.items.create({ id: "1", state: "WA", city: "Redmond" });
  assert.equal((await item.read()).statusCode, 200);
});
