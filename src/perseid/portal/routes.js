// Addresses within the page: #/database/container/tab/…?option=value, each name percent-encoded.

export const TABS = {
  items: "Items",
  query: "Query",
  changes: "Changes",
  settings: "Scale & Settings",
  lifetimes: "Lifetimes",
};

/** `options` are names and values of what the page shows, such as a filter; empty ones are left out. */
export function link({ database, container, tab = "items", rest = [], options = {} }) {
  const names = [database, container, container ? tab : undefined, ...rest];
  const search = new URLSearchParams(Object.entries(options).filter(([, value]) => value)).toString();
  return `#/${names.filter((name) => name !== undefined).map(encodeURIComponent).join("/")}${search && `?${search}`}`;
}

export function parse(hash) {
  let names = [];
  const at = hash.indexOf("?");
  const path = at < 0 ? hash : hash.slice(0, at);
  const options = at < 0 ? {} : Object.fromEntries(new URLSearchParams(hash.slice(at + 1)));
  try {
    names = path.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    // Not a valid address: show the overview.
  }
  const [database, container, tab = "items", ...rest] = names;
  const isUnknown = !Object.hasOwn(TABS, tab);
  return { database, container, tab: isUnknown ? "items" : tab, rest: isUnknown ? [] : rest, options, isUnknown };
}

export function go(route) {
  location.hash = link(route);
}

/** Changes the options in the address; the page stays, with its unsaved text. */
export function replaceOptions(route) {
  history.replaceState(history.state, "", link(route));
  document.dispatchEvent(new Event("address"));
}

/** Changes the address of the current page without a new entry in the history. */
export function replaceRoute(route) {
  location.replace(link(route));
}
