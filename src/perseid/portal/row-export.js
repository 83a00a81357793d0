// Copies rows to the clipboard, or downloads them as a file.

import { toast } from "./dialogs.js";
import { button, h } from "./elements.js";
import { plural } from "./formats.js";
import { compact, isUserProperty, members, objectText, pretty, SYSTEM_PROPERTIES } from "./json.js";

/** Rows as a JSON array, one line for each member. */
const asArray = (rows) => `${pretty(`[${rows.join(",")}]`)}\n`;

/** Rows as JSON Lines; whole items as `perseid export` writes them, for `perseid import`. */
const asJsonLines = (rows) => rows.map((row) => `${compact(exported(row))}\n`).join("");

function exported(row) {
  if (!row.startsWith("{")) return row;
  const all = members(row);
  const own = all.filter(isUserProperty);
  if (all.length - own.length < SYSTEM_PROPERTIES.size) return row; // the query selected single properties
  return objectText([...own, all.findLast(([name]) => name === "_ts")]);
}

/** Buttons that copy or download what `rows()` returns; files are named after `name`. */
export function exportButtons(name, rows) {
  return h("div", { class: "row wrap", role: "group", "aria-label": "Copy or download the rows shown" },
    button("Copy", () => copy(rows()), { kind: "small", title: "Copy the rows shown as JSON" }),
    button("Download as JSON", () => download(`${name}.json`, asArray(rows())), { kind: "small", title: "Download the rows shown as one JSON array" }),
    button("Download as JSON Lines", () => download(`${name}.jsonl`, asJsonLines(rows())), { kind: "small", title: "Download the rows shown, one per line, in the format of perseid export" }));
}

async function copy(rows) {
  try {
    await writeClipboard(asArray(rows));
    toast(`${plural(rows.length, "row")} copied`);
  } catch {
    toast("The browser does not allow copying. Download the rows instead.", { kind: "bad" });
  }
}

async function writeClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Pages without TLS from another computer have no navigator.clipboard.
  const focused = document.activeElement;
  const area = h("textarea", { class: "invisible", value: text, "aria-hidden": "true" });
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  if (!isCopied) throw new Error("not copied");
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may ask for a file name first
}
