// Partition keys: the values of an item at the paths of its container. A key is a list of JSON
// texts, because a number may have more digits than JavaScript can represent.

import { members } from "./json.js";
import { stepText } from "./query-language.js";

/** The property names in a path like /a/"b c". */
export function namesOf(path) {
  return [...path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^/]+))/g)].map(
    ([, double, single, plain]) => plain ?? (double ?? single).replace(/\\(.)/g, "$1"));
}

const isScalar = (value) => value === null || ["string", "number", "boolean"].includes(typeof value);

/** The paths of a key; a container that was created without a partition key has none. */
const pathsOf = (definition) => (definition.systemKey ? [] : definition.paths);

/** The paths as a query names them, like c.tenant. */
export const keyPaths = (definition) => pathsOf(definition).map((path) => `c${namesOf(path).map(stepText).join("")}`);

/** The key of an item; `text()` returns the item's JSON, {} stands for an absent value. */
export function keyOf(item, definition, text) {
  return pathsOf(definition).map((path) => {
    let value = item;
    for (const name of namesOf(path)) value = value && Object.hasOwn(Object(value), name) ? value[name] : undefined;
    if (!isScalar(value)) return "{}";
    if (typeof value !== "number" || Number.isSafeInteger(value)) return JSON.stringify(value);
    return namesOf(path).reduce((outer, name) => members(outer).findLast(([each]) => each === name)[1], text());
  });
}

/** The key as JSON. */
export const keyJson = (key) => `[${key.join(",")}]`;

/** The key for display: strings without quotes, other values as JSON. */
export function keyText(key) {
  if (!key.length) return "(none)";
  return key.map((value) => {
    if (value[0] === '"') return JSON.parse(value);
    return value[0] === "{" ? "(none)" : value;
  }).join(" / ");
}

/** An item with an empty string at each path of the key, as far as one path allows another. */
export function emptyItem(id, definition) {
  const item = plainObject({ id });
  for (const path of pathsOf(definition)) {
    const names = namesOf(path);
    let parent = item;
    for (const name of names.slice(0, -1)) parent = Object(parent) === parent ? (parent[name] ??= plainObject()) : null;
    if (Object(parent) === parent) parent[names.at(-1)] ??= "";
  }
  return item;
}

/** An object without a prototype, in which __proto__ is an ordinary property name. */
const plainObject = (properties = {}) => Object.assign(Object.create(null), properties);
