// The change feed of a container: the latest version of each written item, or all versions and
// deletes, in the order of writes.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { codeView } from "../code-editor.js";
import { dialog } from "../dialogs.js";
import { button, fill, h, iconButton, table } from "../elements.js";
import { dateTime, plural, truncated } from "../formats.js";
import { jsonSpans } from "../highlight.js";
import { documents, isUserProperty, members, objectText, pretty, singleLine } from "../json.js";
import { keyJson, keyOf, keyText } from "../partition-key.js";
import { empty, failure, loading } from "../placeholders.js";
import { link } from "../routes.js";

const PAGE_SIZE = 100;
const MAX_CELL = 300; // characters
const STARTS = { beginning: "from the beginning", now: "from now on" };
const FIRST_POSITION = '"0"'; // before every change
const MODES = {
  latest: {
    label: "Latest versions",
    columns: [["LSN", "num"], "Id", "Partition key", "Written", "Item"],
    headers: { "a-im": "Incremental Feed" },
  },
  all: {
    label: "All versions and deletes",
    columns: [["LSN", "num"], "Operation", "Id", "Partition key", "Time", "Item", "Previous version"],
    headers: { "a-im": "Full-Fidelity Feed", "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15" },
  },
};

const select = (label, options) => h("select", { "aria-label": label }, Object.entries(options).map(([value, text]) => h("option", { value }, text)));

export class ChangesView {
  #aborter = new AbortController();
  #route;
  #mode = select("Versions", Object.fromEntries(Object.entries(MODES).map(([name, { label }]) => [name, label])));
  #start = select("Start of the feed", STARTS);
  #count = h("span", { class: "muted", role: "status" });
  #rows = h("tbody");
  #table = h("div");
  #state = h("div", {});
  #more = button("Load more", () => this.#next(), { hidden: true });
  #definition = null;
  #position = null; // the etag of the last response
  #request = null; // aborts it

  constructor(body, route) {
    this.#route = route;
    if (route.options.versions === "all") this.#mode.value = "all";
    this.#start.value = this.#mode.value === "all" ? "now" : "beginning";
    this.#mode.addEventListener("change", () => {
      this.#start.value = this.#mode.value === "all" ? "now" : "beginning";
      this.#restart();
    });
    this.#start.addEventListener("change", () => this.#restart());
    fill(body,
      h("div", { class: "bar changes-bar" },
        this.#mode, this.#start, this.#count, h("div", { class: "grow" }),
        iconButton("refresh", "Restart", () => this.#restart())),
      this.#table, this.#state, this.#more);
    this.#restart();
  }

  dispose() {
    this.#aborter.abort();
  }

  refresh() {
    this.#restart();
  }

  async #restart() {
    this.#request?.abort();
    this.#request = null;
    const beginning = this.#mode.value === "all" ? FIRST_POSITION : null;
    this.#position = this.#start.value === "now" ? "*" : beginning;
    this.#definition = null;
    this.#rows.replaceChildren();
    fill(this.#table, table(MODES[this.#mode.value].columns, this.#rows, { wrapper: "changes-table" }));
    this.#table.hidden = true;
    this.#more.hidden = true;
    this.#count.textContent = "";
    fill(this.#state, loading("Reading the change feed"));
    await this.#next();
  }

  async #next() {
    if (this.#request) return;
    const request = (this.#request = new AbortController());
    const hadFocus = document.activeElement === this.#more;
    this.#more.disabled = true;
    try {
      const response = await this.#read(AbortSignal.any([this.#aborter.signal, request.signal]));
      this.#position = response.headers.get("etag");
      this.#show(response.status === 304 ? [] : documents(response.text));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#more.hidden = true;
      this.#fail(error);
    } finally {
      if (this.#request === request) this.#request = null;
      this.#more.disabled = false;
      if (hadFocus) this.#more.focus();
    }
  }

  #fail(error) {
    const isAll = this.#mode.value === "all" && error.status === 400;
    if (isAll && /must be enabled/.test(error.message)) return fill(this.#state, this.#disabledNote());
    if (isAll && /retention period/.test(error.message)) {
      return fill(this.#state, empty("Not all changes are kept",
        "The server keeps all versions only since they were enabled, and only for the retention time. It can list the changes from now on.",
        button("Start now", () => {
          this.#start.value = "now";
          this.#restart();
        })));
    }
    const hasStarted = ![null, "*", FIRST_POSITION].includes(this.#position);
    fill(this.#state, failure(error, () => (hasStarted ? this.#next() : this.#restart())));
  }

  #disabledNote() {
    return empty("All versions are not kept for this container",
      "Set a retention time for its change feed. From then on the server keeps every version and every delete for that time.",
      h("a", { class: "button primary", href: link({ ...this.#route, tab: "settings", rest: [], options: {} }) }, "Open the settings"));
  }

  async #read(signal) {
    const { database, container } = this.#route;
    this.#definition ??= await api.readContainer(database, container, signal);
    const headers = { ...MODES[this.#mode.value].headers, "x-ms-max-item-count": String(PAGE_SIZE) };
    if (this.#position !== null) headers["if-none-match"] = this.#position;
    return api.call("GET", api.items(database, container), { headers, signal });
  }

  #show(texts) {
    const row = this.#mode.value === "all" ? (text) => this.#versionRow(text) : (text) => this.#latestRow(text);
    this.#rows.append(...texts.map(row));
    const count = this.#rows.childElementCount;
    this.#table.hidden = !count;
    this.#more.hidden = false;
    this.#more.textContent = texts.length ? "Load more" : "Check for changes";
    this.#count.textContent = count ? plural(count, "change") : "";
    if (texts.length) fill(this.#state);
    else if (count) fill(this.#state, h("p", { class: "muted", role: "status" }, `No more changes as of ${dateTime(clock.now())}.`));
    else if (this.#start.value === "now") fill(this.#state, empty("No changes yet", "Changes from now on are shown here when you check for changes."));
    else if (this.#mode.value === "all") fill(this.#state, empty("No changes", "The server has no recorded changes of this container."));
    else fill(this.#state, empty("No changes", "This container has no live items. The feed does not include deleted and expired items."));
  }

  #latestRow(text) {
    const item = JSON.parse(text);
    const key = keyOf(item, this.#definition.partitionKey, () => text);
    return h("tr", {},
      h("td", { class: "num" }, String(item._lsn)),
      this.#idCell(item.id, key),
      h("td", {}, keyText(key)),
      h("td", { class: "written" }, dateTime(item._ts)),
      itemCell(text));
  }

  /** A row of {current, previous, metadata}; a delete has an empty `current`. */
  #versionRow(text) {
    const parts = new Map(members(text));
    const metadata = JSON.parse(parts.get("metadata"));
    const { operationType, lsn, crts, timeToLiveExpired } = metadata;
    const content = operationType === "delete" ? parts.get("previous") : parts.get("current");
    const item = content ? JSON.parse(content) : {};
    const hasItem = Object.keys(item).length > 0;
    const id = hasItem ? item.id : metadata.id;
    const key = hasItem ? keyOf(item, this.#definition.partitionKey, () => content) : deletedKey(parts.get("metadata"));
    const kind = timeToLiveExpired ? "expired" : operationType;
    return h("tr", {},
      h("td", { class: "num" }, String(lsn)),
      h("td", {}, h("span", { class: `chip operation ${kind}` }, timeToLiveExpired ? "delete (TTL expired)" : operationType)),
      operationType === "delete" ? h("th", { scope: "row" }, String(id)) : this.#idCell(id, key),
      h("td", {}, keyText(key)),
      h("td", { class: "written" }, dateTime(crts)),
      operationType === "delete" ? h("td", { class: "muted" }, "–") : itemCell(content),
      this.#previousCell(parts.get("previous"), metadata));
  }

  #previousCell(previous, { previousImageLSN, operationType }) {
    const text = previous && Object.keys(JSON.parse(previous)).length ? previous : null;
    if (text) return itemCell(text);
    if (previousImageLSN === undefined) return h("td", { class: "muted" }, operationType === "create" ? "(new)" : "–");
    return h("td", { class: "muted" }, `LSN ${previousImageLSN}`);
  }

  #idCell(id, key) {
    return h("th", { scope: "row" }, h("a", { href: link({ ...this.#route, tab: "items", rest: [keyJson(key), id], options: {} }) }, id));
  }
}

/** The beginning of an item; a click shows all of it. */
function itemCell(text) {
  const own = objectText(members(text).filter((member) => isUserProperty(member) && member[0] !== "_lsn"));
  const content = truncated(singleLine(own), MAX_CELL);
  const show = () => dialog("Item", () => codeView(jsonSpans, pretty(text), "Item as JSON"), { isWide: true });
  return h("td", { class: "mono", title: content }, h("button", { type: "button", class: "version", onclick: show }, content));
}

/** The key of a deleted item: its metadata has it as an object of paths or as a list. */
function deletedKey(metadata) {
  const key = new Map(members(metadata)).get("partitionKey");
  if (key === undefined) return [];
  return key.startsWith("{") ? members(key).map(([, value]) => value) : members(key);
}
