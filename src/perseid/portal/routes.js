// Addresses within the page: #/database/container/tab/…, each name percent-encoded.

export const TABS = {
  items: "Items",
  query: "Query",
  changes: "Changes",
  settings: "Scale & Settings",
  lifetimes: "Lifetimes",
};

export function link({ database, container, tab = "items", rest = [] }) {
  const names = [database, container, container ? tab : undefined, ...rest];
  return `#/${names.filter((name) => name !== undefined).map(encodeURIComponent).join("/")}`;
}

export function parse(hash) {
  let names = [];
  try {
    names = hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    // Not a valid address: show the overview.
  }
  const [database, container, tab = "items", ...rest] = names;
  const isUnknown = !Object.hasOwn(TABS, tab);
  return { database, container, tab: isUnknown ? "items" : tab, rest: isUnknown ? [] : rest, isUnknown };
}

export function go(route) {
  location.hash = link(route);
}

/** Changes the address of the current page without a new entry in the history. */
export function replaceRoute(route) {
  location.replace(link(route));
}
