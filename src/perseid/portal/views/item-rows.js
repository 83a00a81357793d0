// The rows of the list of items, with countdowns to their expiry.

import { clock } from "../clock.js";
import { h } from "../elements.js";
import { countdown, dateTime } from "../formats.js";
import { keyJson, keyOf, keyText } from "../partition-key.js";
import { link } from "../routes.js";
import { EXPIRES_SOON, expiryOf, expiryReason } from "../ttl.js";

const REMOVAL_TIME = 700; // milliseconds of the animation in app.css
const MAX_CHECKS = 2; // when a row expires and one second later: the page's clock may be slightly ahead

export class ItemRows {
  node = h("tbody");
  #route;
  #rows = new Map(); // key and id: row
  #defaultTtl = null;
  #isSorted = false;
  #filter = ""; // of the rows that are shown

  constructor(route) {
    this.#route = route;
  }

  get size() {
    return this.#rows.size;
  }

  /** Updates the rows to the items of the server; rows that remain keep their node. */
  show(items, definition, { filter, isMore }) {
    this.#defaultTtl = definition.defaultTtl ?? null;
    const names = new Set();
    let position = isMore ? this.size : 0;
    for (const { item, text } of items) {
      const key = keyOf(item, definition.partitionKey, text);
      const name = JSON.stringify([...key, item.id]);
      names.add(name);
      const row = this.#rows.get(name) ?? this.#add(name, item, key);
      row.item = item;
      row.position = position++;
      this.#update(row);
    }
    const isSameFilter = filter === this.#filter; // otherwise a missing row may still exist
    this.#filter = filter;
    if (!isMore) for (const [name, row] of this.#rows) if (!names.has(name)) this.#remove(name, row, isSameFilter);
    this.#arrange();
    this.countDown();
  }

  /** Sorts by expiry, or as the server returns the items. */
  toggleSort() {
    this.#isSorted = !this.#isSorted;
    this.#arrange();
    return this.#isSorted;
  }

  #arrange() {
    const byPosition = (a, b) => a.position - b.position;
    const byExpiry = (a, b) => (a.expiresAt ?? Infinity) - (b.expiresAt ?? Infinity) || byPosition(a, b);
    const nodes = [...this.#rows.values()].sort(this.#isSorted ? byExpiry : byPosition).map((row) => row.node);
    const isAfter = (node, other) => other.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (nodes.every((node, i) => i === 0 || isAfter(node, nodes[i - 1]))) return;
    const focused = document.activeElement;
    this.node.append(...nodes);
    if (this.node.contains(focused)) focused.focus();
  }

  /** Marks the row of the item that is open. */
  select(route) {
    const address = link(route);
    for (const row of this.#rows.values()) {
      const isSelected = row.address === address;
      row.node.classList.toggle("selected", isSelected);
      row.link.setAttribute("aria-current", String(isSelected));
    }
  }

  selectedLink() {
    return this.node.querySelector("[aria-current=true]");
  }

  #add(name, item, key) {
    const { database, container } = this.#route;
    const address = link({ database, container, tab: "items", rest: [keyJson(key), item.id] });
    const row = {
      address,
      checks: 0, // loads that its expiry has caused
      link: h("a", { href: address }, item.id),
      remaining: h("span", { class: "remaining" }),
      meter: h("span", { class: "meter", "aria-hidden": "true" }, h("i", {})),
      source: h("span", { class: "chip" }),
      modified: h("td", { class: "modified" }),
    };
    row.expiry = h("td", { class: "expiry" }, row.remaining, row.meter);
    row.node = h("tr", { onclick: (event) => {
      if (!event.target.closest("a")) location.hash = address;
    } },
    // Where there is no room for the column of keys, the key is shown below the id.
    h("th", { scope: "row" }, row.link, h("small", { class: "key-below" }, keyText(key))),
    h("td", { class: "key" }, keyText(key)),
    row.expiry, h("td", { class: "ttl-source" }, row.source), row.modified);
    this.node.append(row.node);
    this.#rows.set(name, row);
    return row;
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
    row.remaining.textContent = "removed";
    row.node.classList.add("removed");
    setTimeout(() => row.node.remove(), REMOVAL_TIME);
  }

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
