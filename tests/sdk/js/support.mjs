// What the test files share: clients, fresh databases and containers, and how a failure must look.

import assert from "node:assert/strict";
import { after } from "node:test";
import { CosmosClient } from "@azure/cosmos";

export const endpoint = process.env.PERSEID_ENDPOINT;
export const key = process.env.PERSEID_KEY;

let count = 0;

/** A name that no other test uses. */
export function name() {
  count += 1;
  return `js${process.pid}-${count}`;
}

/** A client with the given options, disposed of when the file is done. */
export function connect(options = {}) {
  const client = new CosmosClient({ endpoint, key, ...options });
  after(() => client.dispose());
  return client;
}

/** A client, and the list of its requests with their outcome, without those for the account. */
export function watched(options = {}) {
  const sent = [];
  const plugin = async (request, _diagnostics, next) => {
    const { method, path, headers } = request;
    const entry = { method, path, headers: { ...headers } };
    if (path !== "") {
      sent.push(entry);
    }
    try {
      const response = await next(request);
      entry.status = response.code;
      return response;
    } catch (error) {
      entry.status = error.code;
      throw error;
    }
  };
  const client = connect({ ...options, plugins: [{ on: "request", plugin }] });
  return { client, sent };
}

export const client = connect();

/** A new database that is gone after the test. */
export async function freshDatabase(t, body = {}, by = client) {
  const { database } = await by.databases.create({ id: name(), ...body });
  t.after(() => client.database(database.id).delete());
  return database;
}

/** A new container, by default as this client makes them: with a string path and nothing else. */
export async function freshContainer(t, body = {}, by = client) {
  const database = await freshDatabase(t, {}, by);
  const { container } = await database.containers.create({ id: "c", partitionKey: "/pk", ...body });
  return container;
}

const CODES = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  412: "PreconditionFailed",
  413: "RequestEntityTooLarge",
  429: "TooManyRequests",
};

/** The promise must fail with this status; a sub-status of 0 may also be absent. */
export async function refused(promise, status, { sub = 0, text = "" } = {}) {
  const error = await promise.then(
    () => assert.fail(`expected ${status}, but it succeeded`),
    (reason) => reason,
  );
  assert.equal(error.code, status, String(error.stack ?? error.message));
  assert.equal(error.substatus ?? 0, sub, error.message);
  assert.equal(error.body.code, CODES[status]);
  assert.match(error.activityId, UUID);
  assert.ok(error.message.includes(text), `'${text}' is not in: ${error.message}`);
  return error;
}

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const SYSTEM = ["_rid", "_self", "_etag", "_attachments", "_ts"];

/** An item without what the server added. */
export function plain(item) {
  return Object.fromEntries(Object.entries(item).filter(([property]) => !SYSTEM.includes(property)));
}

export function ids(resources) {
  return resources.map((resource) => resource.id).sort();
}

/** All rows of a query; parameters are given as `{ name: value }`. */
export async function answer(container, query, parameters = {}, options = {}) {
  const { resources } = await container.items.query(spec(query, parameters), options).fetchAll();
  return resources;
}

/** A query and its parameters as the client wants them. */
export function spec(query, parameters) {
  const list = Object.entries(parameters).map(([name, value]) => ({ name: `@${name}`, value }));
  return { query, parameters: list };
}
