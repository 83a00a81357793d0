// The columns of the list of items: some of the portal, and properties that the user has chosen.

import { dialog } from "../dialogs.js";
import { button, field, form, h, submitButton, textInput } from "../elements.js";
import { truncated } from "../formats.js";
import { members, singleLine, SYSTEM_PROPERTIES } from "../json.js";
import { BY_EXPIRY } from "./item-source.js";

const MAX_CELL = 300; // characters
const MAX_FOUND = 60; // properties in the dialog
const STORED = "perseid.columns"; // in local storage, for each container

const FIXED = { key: "Partition key", expiry: "Expires in", "ttl-source": "TTL source", modified: "Last modified" };

/** The names in a path like address.city, tags[0], a["b c"] or /address/city; an index is a number. */
export function parsePath(text) {
  const typed = text.trim().replace(/^c(?=[.[])/, "");
  if (typed.startsWith("/")) return typed.slice(1).split("/").map(nameOrIndex);
  const names = [];
  const part = /\.?([^.[\]"]+)|\[(?:"((?:[^"\\]|\\.)*)"|(\d+))\]/y;
  while (part.lastIndex < typed.length) {
    const match = part.exec(typed);
    if (!match) throw new Error("A path is like address.city, tags[0] or a[\"b c\"].");
    names.push(match[3] !== undefined ? Number(match[3]) : match[1] ?? JSON.parse(`"${match[2]}"`));
  }
  if (!names.length) throw new Error("Enter a path like address.city.");
  return names;
}

const nameOrIndex = (name) => (/^\d+$/.test(name) ? Number(name) : name);

export const pathText = (names) => names.map((name, i) => (
  typeof name === "number" ? `[${name}]` : /^[^.[\]"/]+$/.test(name) ? `${i ? "." : ""}${name}` : `[${JSON.stringify(name)}]`)).join("");

export class ItemColumns {
  #storageKey;
  #hidden = new Set(); // names of FIXED
  #added = []; // lists of names

  constructor({ database, container }) {
    this.#storageKey = `${STORED}.${database}/${container}`;
    try {
      const { hidden, added } = JSON.parse(localStorage.getItem(this.#storageKey));
      this.#hidden = new Set(hidden);
      this.#added = added;
    } catch {
      // Nothing is stored yet, or not by this version.
    }
  }

  /** [{name, label, names?, order?}] in their order; `order` identifies the order by this column. */
  list(definition) {
    const paths = definition?.partitionKey.systemKey ? [] : definition?.partitionKey.paths ?? [];
    const orders = { expiry: BY_EXPIRY, modified: "_ts", key: paths.length === 1 ? pathText(parsePath(paths[0])) : null };
    const fixed = (name) => ({ name, label: FIXED[name], order: orders[name] ?? null });
    const shown = Object.keys(FIXED).filter((name) => !this.#hidden.has(name));
    const added = this.#added.map((names) => ({ name: "property", label: pathText(names), names, order: pathText(names) }));
    return [{ name: "id", label: "Id", order: "id" }, ...shown.slice(0, 1).filter((name) => name === "key").map(fixed),
      ...added, ...shown.filter((name) => name !== "key").map(fixed)];
  }

  /** Asks which columns to show; `items` are those that are loaded. Resolves to whether they changed. */
  choose(items) {
    return dialog("Columns", (close) => {
      const path = textInput({ class: "mono", placeholder: "address.city" });
      const boxes = h("div", { class: "column-choices" });
      const box = (label, isChecked, data) => {
        const node = h("input", { type: "checkbox", checked: isChecked });
        boxes.append(h("label", { class: "check" }, node, h("span", { class: data.names ? "mono" : "" }, label)));
        return { node, ...data };
      };
      const fixed = Object.entries(FIXED).map(([name, label]) => box(label, !this.#hidden.has(name), { name }));
      const shown = new Set(this.#added.map(pathText));
      const found = foundPaths(items).filter((names) => !shown.has(pathText(names)));
      const properties = [...this.#added.map((names) => box(pathText(names), true, { names })), ...found.map((names) => box(pathText(names), false, { names }))];
      const add = () => {
        const names = parsePath(path.value);
        const existing = properties.find((each) => pathText(each.names) === pathText(names));
        if (existing) existing.node.checked = true;
        else properties.push(box(pathText(names), true, { names }));
        path.value = "";
      };
      return form(() => {
        if (path.value.trim()) add();
        this.#hidden = new Set(fixed.filter(({ node }) => !node.checked).map(({ name }) => name));
        this.#added = properties.filter(({ node }) => node.checked).map(({ names }) => names);
        localStorage.setItem(this.#storageKey, JSON.stringify({ hidden: [...this.#hidden], added: this.#added }));
        close(true);
      },
      boxes,
      field("Add a property by its path", path, "For example address.city or tags[0]. The list above has the properties of the items that are loaded."),
      h("footer", {}, button("Cancel", () => close(false)), submitButton("Show")));
    });
  }
}

/** The paths of properties in some items: those at the top, and those of the objects there. */
function foundPaths(items) {
  const paths = new Map();
  const add = (names) => paths.set(pathText(names), names);
  for (const item of items.slice(0, 200)) {
    for (const [name, value] of Object.entries(item)) {
      if (name === "id" || SYSTEM_PROPERTIES.has(name)) continue;
      if (value && typeof value === "object" && !Array.isArray(value)) for (const inner of Object.keys(value)) add([name, inner]);
      else add([name]);
    }
    if (paths.size > MAX_FOUND) break;
  }
  return [...paths.values()].slice(0, MAX_FOUND);
}

/** The value of an item at a path for display; "" if it has none. Numbers keep all their digits. */
export function valueText(item, names, text) {
  let value = item;
  for (const name of names) value = value && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined;
  if (value === undefined) return "";
  if (typeof value === "string") return truncated(value, MAX_CELL);
  if (Number.isSafeInteger(value) || typeof value === "boolean" || value === null) return String(value);
  return truncated(singleLine(textAt(text(), names)), MAX_CELL);
}

function textAt(text, names) {
  return names.reduce((outer, name) => {
    const list = members(outer);
    return typeof name === "number" ? list[name] : list.findLast(([each]) => each === name)[1];
  }, text);
}
