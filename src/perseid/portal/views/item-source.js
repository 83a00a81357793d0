// Reads the items of a container page by page: all of them, those of a filter, and in an order.

import * as api from "../api.js";
import { documents, members } from "../json.js";

/** The order by expiry, which no query can express: the server has a route for it. */
export const BY_EXPIRY = "[expiry]"; // not the text of any path

// A query knows the setting of the container, so it can tell which items never expire.
const OWN_TTL = "(IS_NUMBER(c.ttl) AND c.ttl >= 1 AND c.ttl <= 2147483647 AND c.ttl = FLOOR(c.ttl))";
const WITHOUT_EXPIRY = { off: "", noDefault: `WHERE NOT ${OWN_TTL}`, on: "WHERE c.ttl = -1" };

const START_OF_WHERE = "SELECT * FROM c WHERE ";

/** The property of an item in a query: c["address"]["city"], c["tags"][0]. */
export const propertySql = (names) => `c${names.map((name) => `[${JSON.stringify(name)}]`).join("")}`;

/**
 * The query of a view {id, where, order}: {query, parameters}, or null for all items in the order
 * of creation. `order` is {names, isDescending}.
 */
export function queryOf({ id, where, order }) {
  const parameters = [];
  let query = "SELECT * FROM c";
  if (where) query = `${START_OF_WHERE}${where}`;
  else if (id) {
    query = `${START_OF_WHERE}CONTAINS(c.id, @text, true)`;
    parameters.push({ name: "@text", value: id });
  }
  if (order) query += `\nORDER BY ${propertySql(order.names)} ${order.isDescending ? "DESC" : "ASC"}`; // below a comment
  return where || id || order ? { query, parameters } : null;
}

/** Where an error of the server is in the WHERE clause: {start, end} in UTF-16 units, or null. */
export function positionInWhere(error, where) {
  const location = error.errors?.find((each) => each.location)?.location;
  if (!location) return null;
  const characters = [...where]; // the server counts characters
  const unitsBefore = (position) => characters.slice(0, Math.max(0, position - START_OF_WHERE.length)).join("").length;
  return { start: unitsBefore(location.start), end: unitsBefore(location.end) };
}

export class ItemSource {
  #database;
  #container;
  #signal;

  constructor({ database, container }, signal) {
    this.#database = database;
    this.#container = container;
    this.#signal = signal;
  }

  /** One page: {items, continuation}; items are {item, text()}. */
  read(view, definition, size, continuation) {
    return view.order?.by === BY_EXPIRY ? this.#readByExpiry(definition, size, continuation) : this.#readItems(queryOf(view), size, continuation);
  }

  async #readItems(body, size, continuation) {
    const path = api.items(this.#database, this.#container);
    const headers = { "x-ms-max-item-count": String(size) };
    if (continuation) headers["x-ms-continuation"] = continuation;
    const signal = this.#signal;
    const page = await (body ? api.query(path, body, headers, signal) : api.call("GET", path, { headers, signal }));
    return pageOf(page.json.Documents, () => documents(page.text), page.headers.get("x-ms-continuation"));
  }

  /** First the items that expire, soonest first, then those that never do. */
  async #readByExpiry(definition, size, continuation) {
    if (continuation?.rest) return this.#readRest(definition, size, continuation.rest);
    const search = new URLSearchParams({ count: String(size), continuation: continuation?.expiring ?? "" });
    const path = ["_perseid", ...api.ttl(this.#database, this.#container, "expiring")];
    const page = await api.call("GET", path, { search: `?${search}`, signal: this.#signal });
    const { items, continuation: next } = page.json;
    const texts = () => members(members(page.text).find(([name]) => name === "items")[1])
      .map((entry) => members(entry).find(([name]) => name === "item")[1]);
    const result = pageOf(items.map(({ item }) => item), texts, next && { expiring: next });
    if (next || result.items.length >= size) return { ...result, continuation: result.continuation ?? { rest: "start" } };
    const rest = await this.#readRest(definition, size - result.items.length, "start");
    return { items: [...result.items, ...rest.items], continuation: rest.continuation };
  }

  async #readRest(definition, size, continuation) {
    const setting = definition.defaultTtl === undefined || definition.defaultTtl === null ? "off" : definition.defaultTtl === -1 ? "noDefault" : "on";
    const body = { query: `SELECT * FROM c ${WITHOUT_EXPIRY[setting]}`, parameters: [] };
    const page = await this.#readItems(body, size, continuation === "start" ? null : continuation);
    return { ...page, continuation: page.continuation && { rest: page.continuation } };
  }
}

function pageOf(items, split, continuation) {
  let texts = null; // split only if the text of an item is needed
  const textOf = (index) => (texts ??= split())[index];
  return { items: items.map((item, index) => ({ item, text: () => textOf(index) })), continuation };
}
