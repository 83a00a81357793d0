// The items of a container: a list with countdowns, and an editor next to it.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { button, fill, h, iconButton, table, textInput } from "../elements.js";
import { plural } from "../formats.js";
import { documents, jsonError, members } from "../json.js";
import { keyJson } from "../partition-key.js";
import { empty, failure, loading } from "../placeholders.js";
import { go, replaceRoute } from "../routes.js";
import { ItemEditor } from "./item-editor.js";
import { ItemRows } from "./item-rows.js";

const PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1000;
const REFRESH_INTERVAL = 10_000; // milliseconds; other clients write, too
const PAUSE_FACTOR = 10; // a pause is at least this many times as long as the load before it
const TYPING_PAUSE = 200; // milliseconds

/** The item that an address names: null for a new item, undefined for the list only. */
function targetOf(rest) {
  if (rest.length === 1 && rest[0] === "new") return null;
  if (rest.length !== 2 || jsonError(rest[0])) return undefined;
  return rest[0].trimStart().startsWith("[") ? { key: members(rest[0]), id: rest[1] } : undefined;
}

export class ItemsView {
  #aborter = new AbortController();
  #body;
  #route;
  #definition = null;
  #continuation = null;
  #editor = null;
  #isLoading = false;
  #nextLoad = null; // requested while another load is running
  #refreshTimer = 0;
  #typingTimer = 0;
  #filter = textInput({ type: "search", placeholder: "Filter by id", "aria-label": "Filter by id", oninput: () => this.#filterChanged() });
  #count = h("span", { class: "muted", role: "status" });
  #rows;
  #table;
  #create = this.#newItemButton();
  #state = h("div", {}, loading("Loading items"));
  #more = button("Load more", () => this.#load({ isMore: true }), { hidden: true });
  #pane = h("section", { class: "pane", "aria-label": "Item", tabindex: "-1", hidden: true });

  constructor(body, route) {
    this.#body = body;
    this.#route = route;
    this.#rows = new ItemRows(route);
    const columns = ["Id", ["Partition key", "key"], this.#expiryHeader(), ["TTL source", "ttl-source"], ["Last modified", "modified"]];
    this.#table = table(columns, this.#rows.node, { wrapper: "items-table" });
    this.#table.hidden = true;
    fill(body, h("div", { class: "split" },
      h("section", { class: "list", "aria-label": "Items" },
        h("div", { class: "bar" },
          this.#create, this.#filter, this.#count, h("div", { class: "grow" }),
          iconButton("refresh", "Refresh", () => this.#load())),
        this.#state, this.#table, this.#more),
      this.#pane));
    const { signal } = this.#aborter;
    clock.addEventListener("tick", () => this.#tick(), { signal });
    clock.addEventListener("jump", () => this.#load(), { signal });
    this.#load();
  }

  dispose() {
    clearTimeout(this.#refreshTimer);
    clearTimeout(this.#typingTimer);
    this.#aborter.abort();
    this.#editor?.dispose();
  }

  canLeave() {
    return !this.#editor?.isDirty();
  }

  refresh() {
    this.#load();
  }

  update(route) {
    this.#route = route;
    if (this.#definition) this.#edit();
  }

  #newItemButton() {
    return button("New item", () => this.#open("new"), { kind: "primary" });
  }

  #open(...rest) {
    go({ ...this.#route, tab: "items", rest });
  }

  #expiryHeader() {
    const header = h("th", { scope: "col" }, h("button", { type: "button", class: "sort", title: "Sort by expiry, earliest first", onclick: () => {
      const isSorted = this.#rows.toggleSort();
      header.setAttribute("aria-sort", isSorted ? "ascending" : "none");
    } }, "Expires in"));
    return header;
  }

  // Loading

  async #load({ isMore = false } = {}) {
    if (this.#isLoading) {
      this.#nextLoad = { isMore: isMore || Boolean(this.#nextLoad?.isMore) };
      return;
    }
    this.#isLoading = true;
    clearTimeout(this.#refreshTimer);
    const startedAt = performance.now();
    try {
      await this.#loadOnce(isMore);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#fail(error);
    } finally {
      this.#isLoading = false;
    }
    const next = this.#nextLoad;
    this.#nextLoad = null;
    if (next) this.#load(next);
    else this.#refreshTimer = setTimeout(() => this.#load(), Math.max(REFRESH_INTERVAL, PAUSE_FACTOR * (performance.now() - startedAt)));
  }

  async #loadOnce(isMore) {
    const { database, container } = this.#route;
    this.#definition = await api.readContainer(database, container, this.#aborter.signal);
    this.#create.disabled = false;
    const filter = this.#filter.value.trim();
    const page = await (isMore && this.#continuation ? this.#read(filter, PAGE_SIZE, this.#continuation) : this.#readAgain(filter));
    this.#continuation = page.continuation;
    this.#show(page.items, filter, isMore);
    if (this.#editor) this.#editor.refresh(this.#definition);
    else this.#edit();
  }

  #fail(error) {
    this.#table.hidden = true;
    this.#more.hidden = true;
    this.#create.disabled = error.status === 404; // the container does not exist
    fill(this.#state, failure(error, () => this.#load()));
  }

  /** Reads as many items as there are rows, or the first ones; pages before them may be empty. */
  async #readAgain(filter) {
    const count = Math.max(PAGE_SIZE, this.#rows.size);
    const result = await this.#read(filter, Math.min(MAX_PAGE_SIZE, count), null);
    while (result.continuation && result.items.length < Math.max(1, this.#rows.size)) {
      const page = await this.#read(filter, Math.min(MAX_PAGE_SIZE, count - result.items.length), result.continuation);
      result.items.push(...page.items);
      result.continuation = page.continuation;
    }
    return result;
  }

  /** One page: {items, continuation}; items are {item, text()}. */
  async #read(filter, size, continuation) {
    const { signal } = this.#aborter;
    const path = api.items(this.#route.database, this.#route.container);
    const headers = { "x-ms-max-item-count": String(size) };
    if (continuation) headers["x-ms-continuation"] = continuation;
    const page = await (filter
      ? api.query(path, {
        query: "SELECT * FROM c WHERE CONTAINS(c.id, @text, true)",
        parameters: [{ name: "@text", value: filter }],
      }, headers, signal)
      : api.call("GET", path, { headers, signal }));
    let texts = null; // split only if the text of an item is needed
    const textOf = (index) => (texts ??= documents(page.text))[index];
    return {
      items: page.json.Documents.map((item, index) => ({ item, text: () => textOf(index) })),
      continuation: page.headers.get("x-ms-continuation"),
    };
  }

  #filterChanged() {
    clearTimeout(this.#typingTimer);
    this.#continuation = null; // it belongs to the previous filter
    this.#more.hidden = true;
    this.#typingTimer = setTimeout(() => this.#load(), TYPING_PAUSE);
  }

  // Drawing

  #show(items, filter, isMore) {
    this.#rows.show(items, this.#definition, { filter, isMore });
    this.#rows.select(this.#route);
    const count = this.#rows.size;
    this.#table.hidden = !count;
    this.#more.hidden = !this.#continuation;
    this.#count.textContent = count ? `${plural(count, "item")}${this.#continuation ? " shown" : ""}` : "";
    if (count) fill(this.#state);
    else if (filter) fill(this.#state, empty("No matching items", `No id contains “${filter}”.`));
    else fill(this.#state, empty("No items", "Create one here, or connect an application.", this.#newItemButton()));
  }

  /** The server decides whether a row has expired: another client may have extended its lifetime. */
  #tick() {
    this.#rows.countDown();
    if (this.#rows.needCheck()) this.#load();
  }

  #edit() {
    const focused = document.activeElement;
    const wasInList = this.#rows.node.contains(focused);
    const wasInPane = this.#pane.contains(focused) || focused === document.body;
    const previousRow = this.#editor && this.#rows.selectedLink();
    this.#editor?.dispose();
    this.#editor = null;
    const target = targetOf(this.#route.rest);
    const isOpen = target !== undefined;
    this.#pane.hidden = !isOpen;
    this.#body.classList.toggle("editing", isOpen);
    this.#rows.select(this.#route);
    if (isOpen) {
      this.#editor = this.#newEditor(target);
      if (wasInList) this.#pane.focus(); // otherwise Tab would go through all other rows first
    } else if (previousRow && wasInPane) {
      previousRow.focus();
    }
  }

  #newEditor(target) {
    return new ItemEditor(this.#pane, {
      database: this.#route.database,
      container: this.#route.container,
      definition: this.#definition,
      target,
      onchange: () => this.#load(),
      onclose: () => this.#open(),
      onnamed: (key, id) => replaceRoute({ ...this.#route, tab: "items", rest: [keyJson(key), id] }),
    });
  }
}
