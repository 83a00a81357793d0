// The rows of the list of items, with countdowns to their expiry, a selection and sorted columns.

import { clock } from "../clock.js";
import { h, table } from "../elements.js";
import { countdown, dateTime } from "../formats.js";
import { keyJson, keyOf, keyText } from "../partition-key.js";
import { link } from "../routes.js";
import { EXPIRES_SOON, expiryOf, expiryReason } from "../ttl.js";
import { valueText } from "./item-columns.js";
import { BY_EXPIRY } from "./item-source.js";

const REMOVAL_TIME = 700; // milliseconds of the animation in app.css
const MAX_CHECKS = 2; // when a row expires and one second later: the page's clock may be slightly ahead

export class ItemRows {
  #body = h("tbody");
  #heads = h("tr");
  #route;
  #events; // {onsort(order), onselect()}
  #rows = new Map(); // key and id: row
  #columns = [];
  #order = null;
  #isFiltered = false; // then it cannot be sorted by expiry
  #defaultTtl = null;
  #view = ""; // of the rows that are shown
  #lastClicked = null; // the row of the last click on a checkbox
  #selectAll = h("input", { type: "checkbox", "aria-label": "Select all items shown", onchange: () => this.#toggleAll() });
  table = table([], this.#body, { wrapper: "items-table" });
  /** Where columns have no room, this takes the place of their heads. */
  sortSelect = h("select", { class: "sort-select", "aria-label": "Sort by", onchange: () => this.#events.onsort(this.sortSelect.value) });

  constructor(route, events) {
    this.#route = route;
    this.#events = events;
    this.table.querySelector("thead").replaceChildren(this.#heads);
    this.table.hidden = true;
  }

  get size() {
    return this.#rows.size;
  }

  items() {
    return this.#sorted().map((row) => row.item);
  }

  // Columns and order

  setColumns(columns) {
    if (JSON.stringify(columns) === JSON.stringify(this.#columns)) return;
    this.#columns = columns;
    for (const row of this.#rows.values()) this.#fillRow(row);
    this.#drawHeads();
  }

  /** The server sorts by expiry only all items of a container, not those of a filter. */
  setOrder(order, isFiltered) {
    if (JSON.stringify([order, isFiltered]) === JSON.stringify([this.#order, this.#isFiltered])) return;
    this.#order = order;
    this.#isFiltered = isFiltered;
    this.#drawHeads();
  }

  #drawHeads() {
    const focused = this.#heads.contains(document.activeElement) ? document.activeElement.dataset.column : null;
    this.#heads.replaceChildren(h("td", { class: "select" }, this.#selectAll), ...this.#columns.map((column) => this.#head(column)));
    if (focused) this.#heads.querySelector(`[data-column="${CSS.escape(focused)}"]`)?.focus();
    const options = this.#columns.filter(({ order }) => order).flatMap(({ order, label }) => (order === BY_EXPIRY
      ? [[order, `Expiry, soonest first${this.#isFiltered ? " (clear the filter first)" : ""}`]]
      : [[order, `${label}, ascending`], [`${order} desc`, `${label}, descending`]]));
    this.sortSelect.replaceChildren(h("option", { value: "" }, "Not sorted"), ...options.map(([value, label]) =>
      h("option", { value, disabled: value === BY_EXPIRY && this.#isFiltered }, label)));
    this.sortSelect.value = this.#order ? `${this.#order.by}${this.#order.isDescending ? " desc" : ""}` : "";
  }

  #head({ name, label, order }) {
    if (!order) return h("th", { scope: "col", class: name }, label);
    const isSorted = this.#order?.by === order;
    const isDescending = isSorted && Boolean(this.#order.isDescending);
    const isExpiry = order === BY_EXPIRY;
    const next = !isSorted ? order : isDescending || isExpiry ? "" : `${order} desc`;
    const note = isExpiry && this.#isFiltered ? "Clear the filter to sort by expiry" : "";
    const title = note || (isExpiry ? "Sort all items of the container by expiry, soonest first" : `Sort all items of the container by ${label}`);
    return h("th", { scope: "col", class: name, "aria-sort": isDescending ? "descending" : isSorted ? "ascending" : "none" },
      h("button", { type: "button", class: "sort", "data-column": label, title, disabled: Boolean(note), onclick: () => this.#events.onsort(next) }, label));
  }

  // Rows

  /** Updates the rows to the items of the server; rows that remain keep their node. */
  show(items, definition, { view, isMore, options = {} }) {
    this.#defaultTtl = definition.defaultTtl ?? null;
    const names = new Set();
    let position = isMore ? this.size : 0;
    for (const { item, text } of items) {
      const key = keyOf(item, definition.partitionKey, text);
      const name = JSON.stringify([...key, item.id]);
      names.add(name);
      const row = this.#rows.get(name) ?? this.#add(name, key, item);
      const isChanged = row.item._etag !== item._etag || !row.text;
      Object.assign(row, { item, text, position: position++ });
      this.#setAddress(row, options);
      if (isChanged) this.#fillRow(row);
      this.#update(row);
    }
    const isSameView = view === this.#view; // otherwise a missing row may still exist
    this.#view = view;
    if (!isMore) for (const [name, row] of this.#rows) if (!names.has(name)) this.#remove(name, row, isSameView);
    this.#arrange();
    this.countDown();
    this.#drawSelectAll();
  }

  #sorted() {
    return [...this.#rows.values()].sort((a, b) => a.position - b.position);
  }

  #arrange() {
    const nodes = this.#sorted().map((row) => row.node);
    const isAfter = (node, other) => other.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (nodes.every((node, i) => i === 0 || isAfter(node, nodes[i - 1]))) return;
    const focused = document.activeElement;
    this.#body.append(...nodes);
    if (this.#body.contains(focused)) focused.focus();
  }

  /** Marks the row of the item that is open. */
  mark(address) {
    for (const row of this.#rows.values()) {
      const isOpen = row.address === address;
      row.node.classList.toggle("selected", isOpen);
      row.link.setAttribute("aria-current", String(isOpen));
    }
  }

  currentLink() {
    return this.#body.querySelector("[aria-current=true]");
  }

  #add(name, key, item) {
    const row = {
      key,
      item,
      checks: 0, // loads that its expiry has caused
      link: h("a", {}, item.id),
      box: h("input", { type: "checkbox", "aria-label": `Select ${item.id}`, onclick: (event) => this.#boxClicked(row, event) }),
      remaining: h("span", { class: "remaining" }),
      meter: h("span", { class: "meter", "aria-hidden": "true" }, h("i", {})),
      source: h("span", { class: "chip" }),
      modified: h("td", { class: "modified" }),
      below: h("small", { class: "properties-below" }),
    };
    row.expiry = h("td", { class: "expiry" }, row.remaining, row.meter);
    row.node = h("tr", { onclick: (event) => {
      if (!event.target.closest("a, input, .select")) location.hash = row.address;
    } });
    this.#body.append(row.node);
    this.#rows.set(name, row);
    return row;
  }

  #setAddress(row, options) {
    const { database, container } = this.#route;
    const address = link({ database, container, tab: "items", rest: [keyJson(row.key), row.item.id], options });
    if (address === row.address) return;
    row.address = address;
    row.link.setAttribute("href", address);
  }

  /** The cells of a row; the link and the checkbox stay the same nodes. */
  #fillRow(row) {
    if (!row.text) return; // it is not loaded yet
    const properties = this.#columns.filter(({ names }) => names).map(({ label, names }) => [label, valueText(row.item, names, row.text)]);
    const values = new Map(properties);
    row.below.replaceChildren(...properties.filter(([, text]) => text).map(([label, text]) => h("span", {}, `${label}: ${text}`)));
    const cells = {
      // Where there is no room for the column of keys, the key is shown below the id.
      id: () => h("th", { scope: "row" }, row.link, h("small", { class: "key-below" }, keyText(row.key)), row.below),
      key: () => h("td", { class: "key" }, keyText(row.key)),
      expiry: () => row.expiry,
      "ttl-source": () => h("td", { class: "ttl-source" }, row.source),
      modified: () => row.modified,
      property: (label) => h("td", { class: "property", title: values.get(label) }, values.get(label)),
    };
    const focused = row.node.contains(document.activeElement) ? document.activeElement : null;
    row.node.replaceChildren(h("td", { class: "select" }, row.box), ...this.#columns.map(({ name, label }) => cells[name](label)));
    focused?.focus();
  }

  #update(row) {
    const { source, expiresAt } = expiryOf(row.item, this.#defaultTtl);
    if (expiresAt !== row.expiresAt) row.checks = 0;
    row.expiresAt = expiresAt;
    row.modified.textContent = dateTime(row.item._ts);
    row.source.textContent = source;
    row.source.className = `chip from-${source}`;
    row.source.title = expiryReason(row.item, this.#defaultTtl);
    row.expiry.title = expiresAt === null ? "" : `Expires at ${dateTime(expiresAt)}`;
    row.meter.hidden = expiresAt === null;
  }

  #remove(name, row, isAnimated) {
    this.#rows.delete(name);
    if (!isAnimated) return row.node.remove();
    row.box.disabled = true;
    row.remaining.textContent = "removed";
    row.node.classList.add("removed");
    setTimeout(() => row.node.remove(), REMOVAL_TIME);
  }

  // Selection

  /** The selected rows, as {item, key}. */
  selected() {
    return this.#sorted().filter((row) => row.box.checked).map(({ item, key }) => ({ item, key }));
  }

  clearSelection() {
    for (const row of this.#rows.values()) this.#check(row, false);
    this.#selectionChanged();
  }

  #check(row, isChecked) {
    row.box.checked = isChecked;
    row.node.classList.toggle("checked", isChecked);
  }

  /** With the Shift key, all rows from the last click to this one. */
  #boxClicked(row, event) {
    const rows = this.#sorted();
    const [from, to] = [rows.indexOf(this.#lastClicked), rows.indexOf(row)].sort((a, b) => a - b);
    const range = event.shiftKey && from >= 0 ? rows.slice(from, to + 1) : [row];
    for (const each of range) this.#check(each, row.box.checked);
    this.#lastClicked = row;
    this.#selectionChanged();
  }

  #toggleAll() {
    for (const row of this.#rows.values()) this.#check(row, this.#selectAll.checked);
    this.#selectionChanged();
  }

  #selectionChanged() {
    this.#drawSelectAll();
    this.#events.onselect();
  }

  #drawSelectAll() {
    const count = [...this.#rows.values()].filter((row) => row.box.checked).length;
    this.#selectAll.checked = count > 0 && count === this.size;
    this.#selectAll.indeterminate = count > 0 && count < this.size;
  }

  // Countdowns

  /** Updates the countdowns. */
  countDown() {
    const now = clock.now();
    for (const row of this.#rows.values()) drawRemaining(row, now);
  }

  /**
   * Whether the server should be asked about rows that have expired. If its clock is behind, the
   * row stays; then only the regular refresh asks again.
   */
  needCheck() {
    const now = clock.now();
    const expired = [...this.#rows.values()].filter((row) => row.expiresAt !== null && row.expiresAt <= now && row.checks < MAX_CHECKS);
    for (const row of expired) row.checks++;
    return expired.length > 0;
  }
}

function drawRemaining(row, now) {
  const { expiresAt, item } = row;
  const seconds = expiresAt === null ? Infinity : expiresAt - now;
  row.node.classList.toggle("expired", seconds <= 0);
  row.expiry.className = `expiry ${expiresAt === null ? "never" : seconds <= EXPIRES_SOON ? "soon" : ""}`;
  if (expiresAt === null) row.remaining.textContent = "never";
  else row.remaining.textContent = seconds > 0 ? countdown(seconds) : "expired";
  if (expiresAt !== null) row.meter.firstChild.style.width = `${Math.max(0, Math.min(1, seconds / (expiresAt - item._ts))) * 100}%`;
}
