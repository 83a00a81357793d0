// The items of a container: a list with a filter, columns, an order and a selection, and an editor
// next to it.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { errorToast } from "../dialogs.js";
import { button, fill, h, iconButton } from "../elements.js";
import { plural } from "../formats.js";
import { jsonError, members } from "../json.js";
import { keyJson } from "../partition-key.js";
import { empty, failure, loading } from "../placeholders.js";
import { go, link, replaceOptions, replaceRoute } from "../routes.js";
import { ItemColumns, parsePath } from "./item-columns.js";
import { ItemEditor } from "./item-editor.js";
import { ItemFilter } from "./item-filter.js";
import { ItemRows } from "./item-rows.js";
import { deleteItems } from "./item-selection.js";
import { BY_EXPIRY, ItemSource } from "./item-source.js";
import { acceptDroppedFiles, uploadItems } from "./item-upload.js";

const PAGE_SIZE = 100;
const MAX_PAGE_SIZE = 1000;
const REFRESH_INTERVAL = 10_000; // milliseconds; other clients write, too
const PAUSE_FACTOR = 10; // a pause is at least this many times as long as the load before it

/** The item that an address names: null for a new item, undefined for the list only. */
function targetOf(rest) {
  if (rest.length === 1 && rest[0] === "new") return null;
  if (rest.length !== 2 || jsonError(rest[0])) return undefined;
  return rest[0].trimStart().startsWith("[") ? { key: members(rest[0]), id: rest[1] } : undefined;
}

/** The order in an address, "total desc": {by, names, isDescending}, or null. */
function orderOf(text = "") {
  const by = text.replace(/ desc$/, "");
  if (!by) return null;
  if (by === BY_EXPIRY) return { by };
  try {
    return { by, names: parsePath(by), isDescending: text !== by };
  } catch {
    return null;
  }
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
  #source;
  #columns;
  #filter;
  #rows;
  #order;
  #count = h("span", { class: "muted", role: "status" });
  #orderNote = h("p", { class: "hint", hidden: true }, "Sorting by expiry is for all items: clear the filter first.");
  #create = this.#newItemButton();
  #state = h("div", {}, loading("Loading items"));
  #more = button("Load more", () => this.#load({ isMore: true }), { hidden: true });
  #selectionCount = h("span", { role: "status" });
  #selection = h("div", { class: "bar selection-bar", role: "group", "aria-label": "Selected items", hidden: true },
    this.#selectionCount,
    button("Delete", () => this.#deleteSelected(), { kind: "danger quiet" }),
    button("Clear selection", () => this.#rows.clearSelection(), { kind: "quiet" }));
  #pane = h("section", { class: "pane", "aria-label": "Item", tabindex: "-1", hidden: true });

  constructor(body, route) {
    this.#body = body;
    this.#route = route;
    const { signal } = this.#aborter;
    this.#order = orderOf(route.options.order);
    this.#source = new ItemSource(route, signal);
    this.#columns = new ItemColumns(route);
    this.#filter = new ItemFilter(route.options, () => this.#viewChanged());
    this.#rows = new ItemRows(route, {
      onsort: (order) => this.#sort(order),
      onselect: () => this.#drawSelection(),
    });
    const list = h("section", { class: "list", "aria-label": "Items" }, this.#bar(), this.#orderNote, this.#selection, this.#state, this.#rows.table, this.#more);
    fill(body, h("div", { class: "split" }, list, this.#pane));
    acceptDroppedFiles(list, (files) => this.#upload(files), signal);
    clock.addEventListener("tick", () => this.#tick(), { signal });
    clock.addEventListener("jump", () => this.#load(), { signal });
    this.#load();
  }

  #bar() {
    return h("div", { class: "bar" },
      this.#create,
      button("Upload", () => this.#upload([]), { title: "Upload items from JSON or JSON Lines files; you can also drop files here" }),
      this.#filter.node,
      button("Columns", () => this.#chooseColumns()),
      this.#rows.sortSelect,
      this.#count, h("div", { class: "grow" }),
      iconButton("refresh", "Refresh", () => this.#load()));
  }

  dispose() {
    clearTimeout(this.#refreshTimer);
    this.#filter.dispose();
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
    const isSameItem = this.#route.rest.join("\n") === route.rest.join("\n");
    const isSameView = JSON.stringify(this.#route.options) === JSON.stringify(route.options);
    this.#route = route;
    if (!isSameView) {
      this.#filter.set(route.options);
      this.#order = orderOf(route.options.order);
      this.#reload();
    }
    if (this.#definition && !isSameItem) this.#edit();
  }

  #newItemButton() {
    return button("New item", () => this.#open("new"), { kind: "primary" });
  }

  #open(...rest) {
    go({ ...this.#route, tab: "items", rest });
  }

  // Filter, order and columns

  #view() {
    return { ...this.#filter.value, order: this.#order };
  }

  /** The order by expiry is one of the whole container: the server has it for no filter. */
  #viewChanged() {
    const { id, where } = this.#filter.value;
    if ((id || where) && this.#order?.by === BY_EXPIRY) this.#order = null;
    const order = this.#order && `${this.#order.by}${this.#order.isDescending ? " desc" : ""}`;
    this.#route = { ...this.#route, options: { id, where, order } };
    replaceOptions(this.#route);
    this.#rows.setOrder(this.#order, Boolean(id || where)); // at once: the next click depends on it
    this.#reload();
  }

  #reload() {
    this.#continuation = null; // it belongs to the previous filter and order
    this.#more.hidden = true;
    this.#rows.clearSelection();
    this.#load();
  }

  #sort(order) {
    this.#order = orderOf(order);
    this.#viewChanged();
  }

  async #chooseColumns() {
    if (!(await this.#columns.choose(this.#rows.items()))) return;
    this.#rows.setColumns(this.#columns.list(this.#definition));
    this.#load();
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
    const view = this.#view();
    const page = await (isMore && this.#continuation
      ? this.#source.read(view, this.#definition, PAGE_SIZE, this.#continuation)
      : this.#readAgain(view));
    this.#filter.hideError();
    this.#continuation = page.continuation;
    this.#show(page.items, view, isMore);
    this.#editOrRefresh();
  }

  #editOrRefresh() {
    if (this.#editor) this.#editor.refresh(this.#definition);
    else this.#edit();
  }

  #fail(error) {
    if (error.status === 403 && this.#order?.by === BY_EXPIRY) {
      errorToast(new Error("The order by expiry requires a master key."));
      return this.#sort("");
    }
    this.#more.hidden = true;
    if (this.#filter.showError(error)) { // the rows of the previous filter are not those of this one
      this.#rows.show([], this.#definition, { view: "", isMore: false });
      this.#rows.table.hidden = true;
      this.#count.textContent = "";
      fill(this.#state);
      return this.#editOrRefresh();
    }
    this.#rows.table.hidden = true;
    this.#create.disabled = error.status === 404; // the container does not exist
    fill(this.#state, failure(error, () => this.#load()));
  }

  /** Reads as many items as there are rows, or the first ones; pages before them may be empty. */
  async #readAgain(view) {
    const count = Math.max(PAGE_SIZE, this.#rows.size);
    const read = (size, continuation) => this.#source.read(view, this.#definition, Math.min(MAX_PAGE_SIZE, size), continuation);
    const result = await read(count, null);
    while (result.continuation && result.items.length < Math.max(1, this.#rows.size)) {
      const page = await read(count - result.items.length, result.continuation);
      result.items.push(...page.items);
      result.continuation = page.continuation;
    }
    return result;
  }

  // Drawing

  #show(items, view, isMore) {
    const { id, where } = view;
    this.#rows.setColumns(this.#columns.list(this.#definition));
    this.#rows.setOrder(this.#order, Boolean(id || where));
    this.#orderNote.hidden = !(id || where) || (this.#definition.defaultTtl ?? null) === null;
    this.#rows.show(items, this.#definition, { view: JSON.stringify(view), isMore, options: this.#route.options });
    this.#rows.mark(link(this.#route));
    const count = this.#rows.size;
    this.#rows.table.hidden = !count;
    this.#more.hidden = !this.#continuation;
    this.#count.textContent = count ? `${plural(count, "item")}${this.#continuation ? " shown" : ""}` : "";
    if (count) fill(this.#state);
    else if (where) fill(this.#state, empty("No matching items", "No item meets the WHERE clause."));
    else if (id) fill(this.#state, empty("No matching items", `No id contains “${id}”.`));
    else fill(this.#state, empty("No items", "Create one here, upload a file, or connect an application.", this.#newItemButton()));
    this.#drawSelection();
  }

  /** The server decides whether a row has expired: another client may have extended its lifetime. */
  #tick() {
    this.#rows.countDown();
    if (this.#rows.needCheck()) this.#load();
  }

  // Selection and upload

  #drawSelection() {
    const count = this.#rows.selected().length;
    this.#selection.hidden = !count;
    this.#selectionCount.textContent = count ? `${plural(count, "item")} selected` : "";
  }

  async #deleteSelected() {
    if (!(await deleteItems(this.#route, this.#rows.selected()))) return;
    this.#rows.clearSelection();
    this.#load();
  }

  async #upload(files) {
    if (await uploadItems(this.#route, files)) this.#load();
  }

  // The editor

  #edit() {
    const focused = document.activeElement;
    const wasInList = this.#rows.table.contains(focused);
    const wasInPane = this.#pane.contains(focused) || focused === document.body;
    const previousRow = this.#editor && this.#rows.currentLink();
    this.#editor?.dispose();
    this.#editor = null;
    const target = targetOf(this.#route.rest);
    const isOpen = target !== undefined;
    this.#pane.hidden = !isOpen;
    this.#body.classList.toggle("editing", isOpen);
    this.#rows.mark(link(this.#route));
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
