// Throughput: offers of containers and databases, manual and autoscale.

import assert from "node:assert/strict";
import test from "node:test";
import { client, freshContainer, freshDatabase, name, refused, spec } from "./support.mjs";

const autoscale = (percent) => ({
  maxThroughput: 4000,
  autoUpgradePolicy: { throughputPolicy: { incrementPercent: percent } },
});

/** The offer's body with another content. */
function changed(resource, content) {
  return { ...resource, content: { ...resource.content, ...content } };
}

test("a container has 400 request units unless it asks for more", async (t) => {
  const container = await freshContainer(t);
  const owner = (await container.read()).resource;
  const { resource, statusCode, offer } = await container.readOffer();
  assert.equal(statusCode, 200);
  assert.equal(resource.content.offerThroughput, 400);
  assert.ok(!("offerAutopilotSettings" in resource.content));
  assert.equal(resource.offerVersion, "V2");
  assert.equal(resource.resource, owner._self);
  assert.equal(resource.offerResourceId, owner._rid);
  assert.equal(resource.id, resource._rid);
  assert.equal(resource._self, `offers/${resource._rid}/`);
  assert.equal(resource._rid.length, 4);
  const read = await offer.read();
  assert.equal(read.statusCode, 200);
  assert.deepEqual(read.resource, resource);
  assert.equal(read.etag, resource._etag);
});

test("throughput is what was asked for, and can be replaced", async (t) => {
  const container = await freshContainer(t, { throughput: 1000 });
  const { resource, offer } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 1000);
  const replaced = await offer.replace(changed(resource, { offerThroughput: 900 }));
  assert.equal(replaced.statusCode, 200);
  assert.equal(replaced.resource.content.offerThroughput, 900);
  assert.equal(replaced.resource.resource, resource.resource);
  assert.equal(replaced.resource._rid, resource._rid);
  assert.notEqual(replaced.resource._etag, resource._etag);
  assert.deepEqual((await offer.read()).resource, replaced.resource);
  assert.deepEqual((await container.readOffer()).resource, replaced.resource);
});

test("an autoscale container keeps its settings", async (t) => {
  const container = await freshContainer(t, autoscale(5));
  const { resource, offer } = await container.readOffer();
  assert.equal(resource.content.offerThroughput, 400);
  const { offerAutopilotSettings: settings } = resource.content;
  assert.equal(settings.maxThroughput, 4000);
  assert.equal(settings.autoUpgradePolicy.throughputPolicy.incrementPercent, 5);
  const wider = { offerAutopilotSettings: { ...settings, maxThroughput: 6000 } };
  const { resource: after } = await offer.replace(changed(resource, wider));
  assert.equal(after.content.offerAutopilotSettings.maxThroughput, 6000);
  assert.equal(after.content.offerAutopilotSettings.autoUpgradePolicy.throughputPolicy.incrementPercent, 5);
  assert.equal(after.content.offerThroughput, 600);
  assert.deepEqual((await container.readOffer()).resource, after);
});

test("a database shares its throughput with containers that ask for none", async (t) => {
  const database = await freshDatabase(t, { throughput: 800 });
  const owner = (await database.read()).resource;
  const { resource, offer } = await database.readOffer();
  assert.equal(resource.content.offerThroughput, 800);
  assert.equal(resource.resource, owner._self);
  const { container: sharing } = await database.containers.create({ id: "s", partitionKey: "/pk" });
  const none = await sharing.readOffer();
  assert.equal(none.resource, undefined);
  assert.equal(none.offer, undefined);
  const { container: own } = await database.containers.create({
    id: "o",
    partitionKey: "/pk",
    throughput: 500,
  });
  assert.equal((await own.readOffer()).resource.content.offerThroughput, 500);
  const { resource: after } = await offer.replace(changed(resource, { offerThroughput: 700 }));
  assert.equal(after.content.offerThroughput, 700);
});

test("a database can scale by itself", async (t) => {
  const database = await freshDatabase(t, { maxThroughput: 2000 });
  const { resource } = await database.readOffer();
  assert.equal(resource.content.offerAutopilotSettings.maxThroughput, 2000);
  assert.equal(resource.content.offerThroughput, 200);
});

test("a database has no throughput unless it asks for it", async (t) => {
  const { resource, offer } = await (await freshDatabase(t)).readOffer();
  assert.equal(resource, undefined);
  assert.equal(offer, undefined);
});

test("createIfNotExists asks for throughput too", async (t) => {
  const id = name();
  const { database } = await client.databases.createIfNotExists({ id, throughput: 600 });
  t.after(() => database.delete());
  assert.equal((await database.readOffer()).resource.content.offerThroughput, 600);
  const { container } = await database.containers.createIfNotExists({
    id: "c",
    partitionKey: "/pk",
    maxThroughput: 1000,
  });
  assert.equal((await container.readOffer()).resource.content.offerAutopilotSettings.maxThroughput, 1000);
});

test("offers are listed and queried", async (t) => {
  const container = await freshContainer(t, { throughput: 700 });
  const { _self } = (await container.read()).resource;
  const listed = (await client.offers.readAll().fetchAll()).resources;
  assert.equal(listed.filter(({ resource }) => resource === _self).length, 1);
  const query = spec("SELECT * FROM root r WHERE r.resource=@link", { link: _self });
  const { resources } = await client.offers.query(query).fetchAll();
  assert.deepEqual(
    resources.map(({ content }) => content.offerThroughput),
    [700],
  );
});

test("an offer goes with its container", async (t) => {
  const container = await freshContainer(t);
  const { offer } = await container.readOffer();
  await container.delete();
  await refused(offer.read(), 404);
});

test("an offer goes with its database", async () => {
  const { database } = await client.databases.create({ id: name(), throughput: 400 });
  const { container } = await database.containers.create({ id: "c", partitionKey: "/pk", throughput: 400 });
  const offers = [(await database.readOffer()).offer, (await container.readOffer()).offer];
  await database.delete();
  for (const offer of offers) {
    await refused(offer.read(), 404);
  }
});

test("an offer that was never made is not found", async () => {
  await refused(client.offer("zzzz").read(), 404);
});

for (const [title, asked] of [
  ["less than 400", { throughput: 300 }],
  ["a negative number", { throughput: -200 }],
  ["an odd step", { throughput: 450 }],
  ["too little to scale", { maxThroughput: 500 }],
  ["more than there is", { throughput: 2000000 }],
]) {
  test(`${title} is refused`, async (t) => {
    const database = await freshDatabase(t);
    await refused(database.containers.create({ id: "c", partitionKey: "/pk", ...asked }), 400);
    await refused(client.databases.create({ id: name(), ...asked }), 400);
    await refused(database.container("c").read(), 404);
  });
}

for (const [title, body, content, text] of [
  [
    "below the minimum",
    { throughput: 400 },
    { offerThroughput: 300 },
    "less than required minimum throughput 400",
  ],
  [
    "below zero",
    { throughput: 400 },
    { offerThroughput: -200 },
    "Requested throughput -200 is less than required minimum throughput 400",
  ],
  [
    "below the autoscale minimum",
    { maxThroughput: 1000 },
    { offerAutopilotSettings: { maxThroughput: -200 } },
    "Requested throughput -200 is less than required minimum throughput 1000",
  ],
  ["that is no number", { throughput: 400 }, { offerThroughput: "many" }, ""],
]) {
  test(`a replace with throughput ${title} changes nothing`, async (t) => {
    const container = await freshContainer(t, { ...body });
    const { resource, offer } = await container.readOffer();
    await refused(offer.replace(changed(resource, content)), 400, { text });
    assert.deepEqual((await offer.read()).resource, resource);
  });
}
