// Addresses within the page: #/database/container/tab/…, each name escaped.

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
    // An address nobody wrote: the overview will do.
  }
  const [database, container, tab = "items", ...rest] = names;
  const isUnknown = !Object.hasOwn(TABS, tab);
  return { database, container, tab: isUnknown ? "items" : tab, rest: isUnknown ? [] : rest, isUnknown };
}

export function go(place) {
  location.hash = link(place);
}

/** The same page under another address; the one it had is no way back. */
export function readdress(place) {
  location.replace(link(place));
}
