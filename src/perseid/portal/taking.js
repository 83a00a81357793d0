// Rows on their way out of the page: to the clipboard, or into a file.

import { button, h, plural, toast } from "./dom.js";
import { compact, joined, parts, pretty, SYSTEM } from "./json.js";

/** Rows as one array, a line for each member. */
export const asArray = (rows) => `${pretty(`[${rows.join(",")}]`)}\n`;

/** Rows as lines of JSON; whole items as `perseid export` writes them, for `perseid import`. */
export const asLines = (rows) => rows.map((row) => `${compact(exported(row))}\n`).join("");

function exported(row) {
  if (!row.startsWith("{")) return row;
  const members = parts(row);
  const own = members.filter(([name]) => !SYSTEM.has(name));
  if (members.length - own.length < SYSTEM.size) return row; // somebody asked for just these properties
  return joined([...own, members.findLast(([name]) => name === "_ts")]);
}

/** Buttons that take what `rows()` gives; files are named after `name`. */
export function taking(name, rows) {
  return h("div", { class: "row", role: "group", "aria-label": "Take the rows shown" },
    button("Copy", () => copy(rows()), { kind: "small", title: "Copy the rows shown as JSON" }),
    button("JSON file", () => save(`${name}.json`, asArray(rows())), { kind: "small", title: "Download the rows shown as one array" }),
    button("Lines file", () => save(`${name}.jsonl`, asLines(rows())), { kind: "small", title: "Download the rows shown, one a line, as perseid export writes them" }));
}

async function copy(rows) {
  try {
    await toClipboard(asArray(rows));
    toast(`${plural(rows.length, "row")} copied`);
  } catch {
    toast("The browser does not let the page copy. Download them instead.", { kind: "bad" });
  }
}

async function toClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without TLS, from another machine, only the old way is open.
  const had = document.activeElement;
  const area = h("textarea", { class: "unseen", value: text, "aria-hidden": "true" });
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  had?.focus();
  if (!isDone) throw new Error("not copied");
}

function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // a browser may ask where to put it first
}
