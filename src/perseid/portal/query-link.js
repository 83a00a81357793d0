// What a query page contains — {query, parameters, partitionKey, pageSize} — as part of an address.
// Values are JSON texts, so that numbers stay exact. An address never contains the account key.

import { compact, jsonError, members, objectText } from "./json.js";

export const MAX_LINK = 8_000; // characters: chat programs and mail cut longer addresses

/** The segments after `query` in the address. */
export function segmentsOf({ query, parameters, partitionKey, pageSize }) {
  const options = [];
  if (Object.keys(parameters).length) options.push(["parameters", objectText(Object.entries(parameters))]);
  if (partitionKey !== null) options.push(["partitionKey", partitionKey]);
  if (pageSize !== null) options.push(["pageSize", String(pageSize)]);
  return options.length ? [query, objectText(options)] : [query];
}

/** The content of an address; null if it has no query. Options that cannot be read are left out. */
export function contentOf([query, options = "{}"]) {
  if (query === undefined) return null;
  const given = new Map(isObject(options) ? members(compact(options)) : []);
  const parameters = given.get("parameters") ?? "{}";
  return {
    query,
    parameters: Object.fromEntries(isObject(parameters) ? members(parameters) : []),
    partitionKey: given.get("partitionKey") ?? null,
    pageSize: Number(given.get("pageSize")) || null,
  };
}

const isObject = (text) => text.trimStart().startsWith("{") && !jsonError(text);
