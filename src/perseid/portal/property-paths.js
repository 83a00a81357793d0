// The properties that items of a container have, as a tree that grows with the items it is shown.

const MAX_NODES = 2_000;
const MAX_DEPTH = 8;
const MAX_ELEMENTS = 20; // of an array

class PathNode {
  names = new Map();
  element = null; // what the elements of an array have in common
  types = new Set();
}

export class PropertyPaths {
  #root = new PathNode();
  #count = 0;

  get isEmpty() {
    return this.#root.names.size === 0;
  }

  /** Adds the properties of an item, which JSON.parse returned. */
  add(item) {
    this.#add(this.#root, item, 0);
  }

  #add(node, value, depth) {
    node.types.add(typeOf(value));
    if (depth >= MAX_DEPTH) return;
    if (Array.isArray(value)) {
      node.element ??= this.#newNode();
      if (node.element) for (const each of value.slice(0, MAX_ELEMENTS)) this.#add(node.element, each, depth + 1);
    } else if (Object(value) === value) {
      for (const [name, each] of Object.entries(value)) {
        const child = node.names.get(name) ?? this.#newNode();
        if (!child) continue;
        node.names.set(name, child);
        this.#add(child, each, depth + 1);
      }
    }
  }

  #newNode() {
    if (this.#count >= MAX_NODES) return null;
    this.#count += 1;
    return new PathNode();
  }

  /** What follows a path: {names: [[name, types]], isArray}; a step is a name, or null for an element. */
  after(steps) {
    let node = this.#root;
    for (const step of steps) node = step === null ? node?.element : node?.names.get(step);
    const names = [...(node?.names ?? [])].map(([name, child]) => [name, [...child.types].join(" or ")]);
    return { names, isArray: Boolean(node?.element) };
  }
}

function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}
