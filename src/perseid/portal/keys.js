// Partition keys: the values an item has at the paths of its container. A key is a list of JSON
// texts, for a number may have more digits than a browser can hold.

import { parts } from "./json.js";

/** The names in a path like /a/"b c". */
function names(path) {
  return [...path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^/]+))/g)].map(
    ([, double, single, plain]) => plain ?? (double ?? single).replace(/\\(.)/g, "$1"));
}

const isScalar = (value) => value === null || ["string", "number", "boolean"].includes(typeof value);

/** The key of an item whose text `text()` gives; {} stands for a value that is not there. */
export function keyOf(item, definition, text) {
  return definition.paths.map((path) => {
    let value = item;
    for (const name of names(path)) value = value && Object.hasOwn(Object(value), name) ? value[name] : undefined;
    if (!isScalar(value)) return "{}";
    if (typeof value !== "number" || Number.isSafeInteger(value)) return JSON.stringify(value);
    return names(path).reduce((whole, name) => parts(whole).findLast(([each]) => each === name)[1], text());
  });
}

/** The key as JSON. */
export const keyJson = (key) => `[${key.join(",")}]`;

/** The key for people: plain strings, the rest as JSON. */
export function keyText(key) {
  return key.map((value) => {
    if (value[0] === '"') return JSON.parse(value);
    return value[0] === "{" ? "(none)" : value;
  }).join(" / ");
}

/** An item with an empty place at each path of the key, where one path leaves room for another. */
export function blank(id, definition) {
  const item = bare({ id });
  for (const path of definition.paths) {
    const steps = names(path);
    let place = item;
    for (const name of steps.slice(0, -1)) place = Object(place) === place ? (place[name] ??= bare()) : null;
    if (Object(place) === place) place[steps.at(-1)] ??= "";
  }
  return item;
}

/** An object in which any name is just a name: __proto__ of others is what all objects share. */
const bare = (members = {}) => Object.assign(Object.create(null), members);
