// The items of a container: a list that counts down, and an editor beside it.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { button, empty, failure, fill, h, iconButton, loading, moment, plural } from "../dom.js";
import { documents, flaw, parts } from "../json.js";
import { keyJson, keyOf, keyText } from "../keys.js";
import { because, countdown, lifetime } from "../lifetime.js";
import { go, link, readdress } from "../routes.js";
import { itemEditor } from "./item-editor.js";

const PAGE = 100;
const LARGEST_PAGE = 1000;
const EVERY = 10_000; // others write too
const SHARE = 10; // of the time passes between two loads, at least
const LEAVING = 700; // milliseconds a dead row takes to go; the same as in the style sheet
const SOON = 60;
const ASKS = 2; // at a row's end, and a second later: the page's clock may be a little ahead

const REASONS = { item: "item", container: "container", none: "never" };

/** The item an address names, null for a new one, undefined for the list alone. */
function targetOf(rest) {
  if (rest.length === 1 && rest[0] === "new") return null;
  if (rest.length !== 2 || flaw(rest[0])) return undefined;
  return rest[0].trimStart().startsWith("[") ? { key: parts(rest[0]), id: rest[1] } : undefined;
}

export function itemsView(body, place) {
  const { database, container } = place;
  const aborter = new AbortController();
  const { signal } = aborter;
  const filter = h("input", { type: "search", placeholder: "Filter by id", "aria-label": "Filter by id", spellcheck: "false", autocomplete: "off" });
  const count = h("span", { class: "muted", role: "status" });
  const rows = h("tbody");
  const byEnd = h("th", { scope: "col" }, h("button", { type: "button", class: "sort", title: "First those that end first", onclick: () => {
    isSorted = !isSorted;
    byEnd.setAttribute("aria-sort", isSorted ? "ascending" : "none");
    arrange();
  } }, "Ends in"));
  let isSorted = false;
  const table = h("div", { class: "table-wrap items-table", hidden: true }, h("table", {},
    h("thead", {}, h("tr", {},
      h("th", { scope: "col" }, "Id"),
      h("th", { scope: "col", class: "key" }, "Partition key"),
      byEnd,
      h("th", { scope: "col", class: "reason" }, "Because of"),
      h("th", { scope: "col", class: "changed" }, "Last change"))),
    rows));
  const create = button("New item", () => go({ ...place, tab: "items", rest: ["new"] }), { kind: "primary" });
  const state = h("div", {}, loading("Loading items"));
  const more = button("Load more", () => load({ isMore: true }), { hidden: true });
  const pane = h("section", { class: "pane", "aria-label": "Item", tabindex: "-1", hidden: true });
  fill(body,
    h("div", { class: "split" },
      h("section", { class: "list", "aria-label": "Items" },
        h("div", { class: "bar" },
          create, filter, count, h("div", { class: "grow" }),
          iconButton("refresh", "Refresh", () => load())),
        state, table, more),
      pane));

  const known = new Map(); // row key -> {item, node, ends, …}
  let definition = null;
  let defaultTtl = null;
  let continuation = null;
  let editor = null;
  let timer = 0;
  let isLoading = false;
  let next = null; // the load that was asked for while one was under way
  let shownFor = ""; // the filter of the rows on the screen

  async function load({ isMore = false } = {}) {
    if (isLoading) {
      next = { isMore: isMore || Boolean(next?.isMore) };
      return;
    }
    isLoading = true;
    clearTimeout(timer);
    const began = performance.now();
    try {
      definition = await api.readContainer(database, container, signal);
      create.disabled = false;
      defaultTtl = definition.defaultTtl ?? null;
      const text = filter.value.trim();
      const found = await (isMore && continuation ? read(text, PAGE, continuation) : readAgain(text));
      continuation = found.continuation;
      show(found.items, text, isMore);
      if (editor) editor.look(definition);
      else edit(place);
    } catch (error) {
      if (error.name === "AbortError") return;
      table.hidden = true;
      more.hidden = true;
      create.disabled = error.status === 404; // no container, no items
      fill(state, failure(error, () => load()));
    } finally {
      isLoading = false;
    }
    if (next) {
      const { isMore: isMoreNext } = next;
      next = null;
      load({ isMore: isMoreNext });
    } else {
      timer = setTimeout(load, Math.max(EVERY, SHARE * (performance.now() - began)));
    }
  }

  /** As many items as there are rows, if there are; the server may need several pages for them. */
  async function readAgain(text) {
    const wanted = Math.max(PAGE, known.size);
    const found = await read(text, Math.min(LARGEST_PAGE, wanted), null);
    while (found.continuation && found.items.length < known.size) {
      const page = await read(text, Math.min(LARGEST_PAGE, wanted - found.items.length), found.continuation);
      found.items.push(...page.items);
      found.continuation = page.continuation;
    }
    return found;
  }

  /** One page: {items, continuation}; items are {item, text()}. */
  async function read(text, wanted, token) {
    const headers = { "x-ms-max-item-count": String(wanted) };
    if (token) headers["x-ms-continuation"] = token;
    const path = [...api.container(database, container), "docs"];
    const page = await (text
      ? api.query(path, {
        query: "SELECT * FROM c WHERE CONTAINS(c.id, @text, true)",
        parameters: [{ name: "@text", value: text }],
      }, headers, signal)
      : api.call("GET", path, { headers, signal }));
    let texts = null; // taken apart only if somebody looks
    const textOf = (index) => {
      texts ??= documents(page.text);
      return texts[index];
    };
    return {
      items: page.json.Documents.map((item, index) => ({ item, text: () => textOf(index) })),
      continuation: page.headers.get("x-ms-continuation"),
    };
  }

  /** Brings the rows in line with what the server holds; rows that stay keep their place. */
  function show(items, text, isMore) {
    const seen = new Set();
    let number = isMore ? known.size : 0;
    for (const { item, text: textOf } of items) {
      const key = keyOf(item, definition.partitionKey, textOf);
      const name = JSON.stringify([...key, item.id]);
      seen.add(name);
      const row = known.get(name) ?? add(name, item, key);
      row.item = item;
      row.place = number++;
      const { origin, ends } = lifetime(item, defaultTtl);
      if (ends !== row.ends) row.asks = 0;
      Object.assign(row, { origin, ends });
      draw(row);
    }
    const isFiltered = text !== shownFor; // then a row that is missing need not be gone
    shownFor = text;
    if (!isMore) for (const [name, row] of known) if (!seen.has(name)) remove(name, row, isFiltered);
    arrange();
    choose();
    table.hidden = !known.size;
    more.hidden = !continuation;
    count.textContent = known.size ? `${plural(known.size, "item")}${continuation ? " shown" : ""}` : "";
    if (known.size) fill(state);
    else if (text) fill(state, empty("No item matches", `No id contains “${text}”.`));
    else {
      fill(state, empty("No items", "Create one here, or connect an application.",
        button("New item", () => go({ ...place, tab: "items", rest: ["new"] }), { kind: "primary" })));
    }
    countDown();
  }

  /** Rows in the order of their ends, or as the server gives them. */
  function arrange() {
    const order = [...known.values()];
    if (isSorted) order.sort((a, b) => (a.ends ?? Infinity) - (b.ends ?? Infinity) || a.place - b.place);
    else order.sort((a, b) => a.place - b.place);
    const nodes = order.map((row) => row.node);
    if (nodes.every((node, i) => i === 0 || nodes[i - 1].compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING)) return;
    const focused = document.activeElement;
    rows.append(...nodes);
    if (rows.contains(focused)) focused.focus();
  }

  function add(name, item, key) {
    const address = link({ database, container, tab: "items", rest: [keyJson(key), item.id] });
    const row = {
      item,
      address,
      asks: 0, // loads that its end has caused
      link: h("a", { href: address }, item.id),
      left: h("span", { class: "left" }),
      meter: h("span", { class: "meter", "aria-hidden": "true" }, h("i", {})),
      reason: h("span", { class: "chip" }),
      changed: h("td", { class: "changed" }),
    };
    row.end = h("td", { class: "end" }, row.left, row.meter);
    row.node = h("tr", { onclick: (event) => {
      if (!event.target.closest("a")) location.hash = address;
    } },
    // Where the column of keys has no room, equal ids in two partitions still differ.
    h("th", { scope: "row" }, row.link, h("small", { class: "key-below" }, keyText(key))),
    h("td", { class: "key" }, keyText(key)),
    row.end, h("td", { class: "reason" }, row.reason), row.changed);
    rows.append(row.node);
    known.set(name, row);
    return row;
  }

  function draw(row) {
    row.changed.textContent = moment(row.item._ts);
    row.reason.textContent = REASONS[row.origin];
    row.reason.className = `chip by-${row.origin}`;
    row.reason.title = because(row.item, defaultTtl);
    row.end.title = row.ends === null ? "" : `Ends at ${moment(row.ends)}`;
    row.meter.hidden = row.ends === null;
  }

  function remove(name, row, isFiltered) {
    known.delete(name);
    if (isFiltered) return row.node.remove();
    row.left.textContent = "gone";
    row.node.classList.add("leaving");
    setTimeout(() => {
      row.node.remove();
      if (!rows.childElementCount) table.hidden = true;
    }, LEAVING);
    table.hidden = false;
  }

  function countDown() {
    const now = clock.now();
    for (const row of known.values()) {
      if (row.ends === null) {
        row.left.textContent = "never";
        row.end.className = "end never";
        row.node.classList.remove("ended");
        continue;
      }
      const left = row.ends - now;
      row.left.textContent = left > 0 ? countdown(left) : "gone";
      row.end.className = `end ${left <= SOON ? "soon" : ""}`;
      row.meter.firstChild.style.width = `${Math.max(0, Math.min(1, left / (row.ends - row.item._ts))) * 100}%`;
      row.node.classList.toggle("ended", left <= 0);
    }
  }

  /**
   * At a row's end the server has the last word: somebody may have given it more time. Where the
   * server's clock is behind, the row stays; then it is asked no more often than at other times.
   */
  function tick() {
    countDown();
    const now = clock.now();
    const doubtful = [...known.values()].filter((row) => row.ends !== null && row.ends <= now && row.asks < ASKS);
    for (const row of doubtful) row.asks++;
    if (doubtful.length) load();
  }

  /** Marks the row of the item that is open, which may be there only now. */
  function choose() {
    const address = link(place);
    for (const row of known.values()) {
      const isChosen = row.address === address;
      row.node.classList.toggle("chosen", isChosen);
      row.link.setAttribute("aria-current", String(isChosen));
    }
  }

  function edit({ rest }) {
    const focused = document.activeElement;
    const isInList = rows.contains(focused);
    const isInPane = pane.contains(focused) || focused === document.body;
    const before = editor && rows.querySelector("[aria-current=true]");
    editor?.dispose();
    editor = null;
    const target = targetOf(rest);
    const isOpen = target !== undefined;
    pane.hidden = !isOpen;
    body.classList.toggle("editing", isOpen);
    choose();
    if (!isOpen) {
      if (before && isInPane) before.focus();
      return;
    }
    editor = itemEditor(pane, {
      database,
      container,
      definition,
      target,
      onchange: () => load(),
      onclose: () => go({ ...place, tab: "items", rest: [] }),
      onnamed: (key, id) => readdress({ ...place, tab: "items", rest: [keyJson(key), id] }),
    });
    if (isInList) pane.focus(); // from a row on, the editor is behind all the others
  }

  let typing = 0;
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    continuation = null; // it belongs to the rows of another filter
    more.hidden = true;
    typing = setTimeout(() => load(), 200);
  });
  clock.addEventListener("tick", tick, { signal });
  clock.addEventListener("leap", () => load(), { signal });
  load();

  return {
    dispose() {
      clearTimeout(timer);
      clearTimeout(typing);
      aborter.abort();
      editor?.dispose();
    },
    canLeave: () => !editor?.isDirty(),
    refresh: () => load(),
    update(to) {
      place = to;
      if (definition) edit(to);
    },
  };
}
