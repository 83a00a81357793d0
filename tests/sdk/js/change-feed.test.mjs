// The change feed through its iterators: starts, scopes, continuations, both modes.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ChangeFeedMode,
  ChangeFeedPolicy,
  ChangeFeedRetentionTimeSpan,
  ChangeFeedStartFrom,
} from "@azure/cosmos";
import { freshContainer, freshDatabase, ids } from "./support.mjs";

const KEYS = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"];
const SIZES = [
  ["one range", 400],
  ["four ranges", 24000],
];

async function fresh(t, throughput, body = {}) {
  const database = await freshDatabase(t);
  const { container } = await database.containers.create({
    id: "c",
    partitionKey: { paths: ["/pk"] },
    throughput,
    changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(10)),
    ...body,
  });
  return container;
}

async function fill(container, prefix = "x") {
  for (const pk of KEYS) {
    await container.items.upsert({ id: `${prefix}-${pk}`, pk });
  }
}

/** Everything until there is nothing new, and the continuation to go on from. */
async function drain(container, changeFeedStartFrom, options = {}) {
  const iterator = container.items.getChangeFeedIterator({ changeFeedStartFrom, ...options });
  const found = [];
  for await (const page of iterator.getAsyncIterator()) {
    if (page.statusCode === 304) {
      assert.equal(page.count, 0);
      return { found, token: page.continuationToken, iterator };
    }
    assert.equal(page.statusCode, 200);
    assert.equal(page.count, page.result.length);
    assert.ok(page.requestCharge >= 1);
    found.push(...page.result);
  }
}

function told(changes) {
  return changes
    .map(({ current, metadata }) => `${metadata.operationType} ${current.id ?? metadata.id}`)
    .sort();
}

const named = (prefix) => KEYS.map((pk) => `${prefix}-${pk}`);
const all = { changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes };

for (const [size, throughput] of SIZES) {
  test(`from the beginning, ${size}`, async (t) => {
    const container = await fresh(t, throughput);
    await fill(container);
    await container.items.upsert({ id: "x-k0", pk: "k0", v: 2 });
    for (const maxItemCount of [1, 4, 100]) {
      const { found } = await drain(container, ChangeFeedStartFrom.Beginning(), { maxItemCount });
      assert.deepEqual(ids(found), named("x"));
      assert.equal(found.find(({ id }) => id === "x-k0").v, 2);
      assert.ok(found.every(({ _lsn }) => _lsn > 0));
    }
  });

  test(`from now and on with the same iterator, ${size}`, async (t) => {
    const container = await fresh(t, throughput);
    await fill(container, "before");
    const { found, token, iterator } = await drain(container, ChangeFeedStartFrom.Now());
    assert.deepEqual(found, []);
    await fill(container, "after");
    const again = [];
    for (let page = await iterator.readNext(); page.statusCode === 200; page = await iterator.readNext()) {
      again.push(...page.result);
    }
    assert.deepEqual(ids(again), named("after"));
    const resumed = await drain(container, ChangeFeedStartFrom.Continuation(token));
    assert.deepEqual(ids(resumed.found), named("after"));
    const end = await drain(container, ChangeFeedStartFrom.Continuation(resumed.token));
    assert.deepEqual(end.found, []);
  });

  test(`a point in time, ${size}`, async (t) => {
    const container = await fresh(t, throughput);
    await fill(container);
    const { resource } = await container.item("x-k0", "k0").read();
    const before = new Date((resource._ts - 60) * 1000);
    const { found } = await drain(container, ChangeFeedStartFrom.Time(before));
    assert.deepEqual(ids(found), named("x"));
    const later = new Date((resource._ts + 3600) * 1000);
    assert.deepEqual((await drain(container, ChangeFeedStartFrom.Time(later))).found, []);
  });

  test(`one key, ${size}`, async (t) => {
    const container = await fresh(t, throughput);
    await fill(container);
    const { found, token } = await drain(container, ChangeFeedStartFrom.Beginning("k3"));
    assert.deepEqual(ids(found), ["x-k3"]);
    await fill(container, "y");
    const resumed = await drain(container, ChangeFeedStartFrom.Continuation(token));
    assert.deepEqual(ids(resumed.found), ["y-k3"]);
  });

  test(`feed ranges, ${size}`, async (t) => {
    const container = await fresh(t, throughput);
    await fill(container);
    const ranges = await container.getFeedRanges();
    assert.equal(ranges.length, throughput === 400 ? 1 : 4);
    const seen = [];
    for (const range of ranges) {
      seen.push(...(await drain(container, ChangeFeedStartFrom.Beginning(range))).found);
    }
    assert.deepEqual(ids(seen), named("x"));
  });

  test(`a hierarchical prefix, ${size}`, async (t) => {
    const container = await fresh(t, throughput, {
      partitionKey: { paths: ["/a", "/b"], kind: "MultiHash", version: 2 },
    });
    const start = await drain(container, ChangeFeedStartFrom.Now(["y"]), all);
    for (const a of ["x", "y", "z"]) {
      for (const b of [1, 2, 3]) {
        await container.items.create({ id: `${a}${b}`, a, b });
      }
    }
    const { found } = await drain(container, ChangeFeedStartFrom.Beginning(["y"]));
    assert.deepEqual(ids(found), ["y1", "y2", "y3"]);
    const changes = await drain(container, ChangeFeedStartFrom.Continuation(start.token), all);
    assert.deepEqual(told(changes.found), ["create y1", "create y2", "create y3"]);
  });

  test(`all versions and deletes, ${size}`, async (t) => {
    const container = await fresh(t, throughput);
    for (const start of [ChangeFeedStartFrom.Beginning(), ChangeFeedStartFrom.Beginning("k1")]) {
      await assert.rejects(drain(container, start, all), (error) => {
        assert.equal(error.code, 400);
        assert.ok(
          error.message.includes("You must read the change feed from within the retention period."),
        );
        return true;
      });
    }
    let { token } = await drain(container, ChangeFeedStartFrom.Now(), all);
    const ofKey = await drain(container, ChangeFeedStartFrom.Now("k2"), all);
    const next = async () => {
      const more = { ...all, maxItemCount: 2 };
      const { found, token: end } = await drain(container, ChangeFeedStartFrom.Continuation(token), more);
      token = end;
      return found;
    };
    await fill(container);
    assert.deepEqual(told(await next()), named("create x"));
    await fill(container);
    assert.deepEqual(told(await next()), named("replace x"));
    for (const pk of KEYS) {
      await container.item(`x-${pk}`, pk).delete();
    }
    const deleted = await next();
    assert.deepEqual(told(deleted), named("delete x"));
    for (const { current, previous, metadata } of deleted) {
      assert.deepEqual(current, {});
      assert.deepEqual(metadata.partitionKey, { pk: previous.pk });
      assert.equal(metadata.timeToLiveExpired, false);
    }
    const { found } = await drain(container, ChangeFeedStartFrom.Continuation(ofKey.token), all);
    assert.deepEqual(
      found.map(({ metadata }) => metadata.operationType),
      ["create", "replace", "delete"],
    );
  });
}

test("the older iterator", async (t) => {
  const container = await freshContainer(t);
  await fill(container);
  const read = async (options) => {
    const iterator = container.items.changeFeed("k1", options);
    const found = [];
    let etag;
    while (iterator.hasMoreResults) {
      const page = await iterator.fetchNext();
      found.push(...(page.result ?? []));
      etag = page.etag;
    }
    return { found, etag };
  };
  assert.deepEqual((await read({})).found, []);
  const { found, etag } = await read({ startFromBeginning: true, maxItemCount: 1 });
  assert.deepEqual(ids(found), ["x-k1"]);
  await fill(container, "y");
  assert.deepEqual(ids((await read({ continuation: etag })).found), ["y-k1"]);
  const since = new Date((found[0]._ts - 60) * 1000);
  assert.deepEqual(ids((await read({ startTime: since })).found), ["x-k1", "y-k1"]);
});
