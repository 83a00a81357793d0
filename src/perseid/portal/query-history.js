// The queries of a container that this browser has run, and those that the user has saved. Both are
// lists of {query, parameters, partitionKey, pageSize} with more details, in local storage.

import { readStored, store } from "./storage.js";

const MAX_ENTRIES = 50;
const MAX_QUERY = 20_000; // characters; longer queries are not kept

const isEntry = (entry) => typeof entry?.query === "string" && typeof entry.parameters === "object" && entry.parameters !== null;

const identity = ({ query, parameters, partitionKey }) =>
  JSON.stringify([query.trim(), Object.entries(parameters).sort(), partitionKey]);

class StoredList {
  #key;
  #entries = null; // if the browser stores nothing, they are kept until the page is left

  constructor(kind, { database, container }) {
    this.#key = `perseid.${kind}.${JSON.stringify([database, container])}`;
  }

  get entries() {
    const stored = readStored(this.#key);
    return this.#entries ?? (Array.isArray(stored) ? stored.filter(isEntry) : []);
  }

  /** Stores the entries; false if the browser refuses. */
  replace(entries) {
    const isStored = store(this.#key, entries);
    this.#entries = isStored ? null : entries;
    return isStored;
  }
}

/** Newest first; a query that runs again moves to the top. */
export class QueryHistory extends StoredList {
  constructor(route) {
    super("history", route);
  }

  add(entry) {
    if (entry.query.length > MAX_QUERY) return;
    const others = this.entries.filter((each) => identity(each) !== identity(entry));
    this.replace([entry, ...others].slice(0, MAX_ENTRIES));
  }

  clear() {
    this.replace([]);
  }
}

/** Sorted by name. */
export class SavedQueries extends StoredList {
  constructor(route) {
    super("saved", route);
  }

  has(name) {
    return this.entries.some((each) => each.name === name);
  }

  /** Saves an entry; another one of the same name is replaced. */
  save(entry) {
    const others = this.entries.filter((each) => each.name !== entry.name);
    return this.replace([...others, entry].sort((a, b) => a.name.localeCompare(b.name)));
  }

  rename(name, newName) {
    const entry = this.entries.find((each) => each.name === name);
    this.delete(name);
    return this.save({ ...entry, name: newName });
  }

  delete(name) {
    return this.replace(this.entries.filter((each) => each.name !== name));
  }
}
