// Copies rows to the clipboard, or downloads them as a file.

import { csvText } from "./csv.js";
import { toast } from "./dialogs.js";
import { button, h } from "./elements.js";
import { plural } from "./formats.js";
import { compact, isUserProperty, members, objectText, pretty, SYSTEM_PROPERTIES } from "./json.js";

/** Rows as a JSON array, one line for each member. */
const asArray = (rows) => `${pretty(`[${rows.join(",")}]`)}\n`;

/** Rows as JSON Lines; whole items as `perseid export` writes them, for `perseid import`. */
const asJsonLines = (rows) => rows.map((row) => `${compact(exported(row))}\n`).join("");

/** Rows as CSV; whole items as `perseid export` writes them. */
const asCsv = (rows) => csvText(rows.map(exported));

function exported(row) {
  if (!row.startsWith("{")) return row;
  const all = members(row);
  const own = all.filter(isUserProperty);
  if (all.length - own.length < SYSTEM_PROPERTIES.size) return row; // the query selected single properties
  return objectText([...own, all.findLast(([name]) => name === "_ts")]);
}

/** Buttons that copy or download what `rows()` returns; files are named after `name`. */
export function exportButtons(name, rows) {
  const save = (label, ending, write, title) => button(label, () => download(`${name}.${ending}`, write(rows())), { kind: "small", title });
  return h("div", { class: "row wrap", role: "group", "aria-label": "Copy or download the rows shown" },
    button("Copy", () => copy(rows(), asArray), { kind: "small", title: "Copy the rows shown as JSON" }),
    button("Copy as CSV", () => copy(rows(), asCsv), { kind: "small", title: "Copy the rows shown as CSV, for a spreadsheet" }),
    save("Download as JSON", "json", asArray, "Download the rows shown as one JSON array"),
    save("Download as JSON Lines", "jsonl", asJsonLines, "Download the rows shown, one per line, in the format of perseid export"),
    save("Download as CSV", "csv", asCsv, "Download the rows shown as CSV, in the format of perseid export"));
}

const copy = (rows, write) => copyText(write(rows), `${plural(rows.length, "row")} copied`, "Download the rows instead.");

/** Puts a text on the clipboard and says so; `otherwise` is what to do if the browser refuses. */
export async function copyText(text, done, otherwise) {
  try {
    await writeClipboard(text);
    toast(done);
  } catch {
    toast(`The browser does not allow copying. ${otherwise}`, { kind: "bad" });
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
  const type = name.endsWith(".csv") ? "text/csv" : "application/json";
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may ask for a file name first
}
