// Partition keys: the values an item has at the paths of its container.

/** The names in a path like /a/"b c". */
function names(path) {
  return [...path.matchAll(/\/(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^/]+))/g)].map(
    ([, double, single, plain]) => plain ?? (double ?? single).replace(/\\(.)/g, "$1"));
}

const isScalar = (value) => value === null || ["string", "number", "boolean"].includes(typeof value);

/** The key of an item, as the header carries it; {} stands for a value that is not there. */
export function keyOf(item, definition) {
  return definition.paths.map((path) => {
    let value = item;
    for (const name of names(path)) value = value && Object.hasOwn(Object(value), name) ? value[name] : undefined;
    return isScalar(value) ? value : {};
  });
}

/** The key for people: plain strings, the rest as JSON. */
export function keyText(key) {
  return key.map((value) => {
    if (typeof value === "string") return value;
    return value !== null && typeof value === "object" ? "(none)" : JSON.stringify(value);
  }).join(" / ");
}

/** An item with an empty place at each path of the key. */
export function blank(id, definition) {
  const item = { id };
  for (const path of definition.paths) {
    const steps = names(path);
    let place = item;
    for (const name of steps.slice(0, -1)) place = place[name] ??= {};
    place[steps.at(-1)] ??= "";
  }
  return item;
}
