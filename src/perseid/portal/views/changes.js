// The change feed of a container: the latest version of each written item, in the order of writes.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { button, fill, h, iconButton, table } from "../elements.js";
import { dateTime, plural, truncated } from "../formats.js";
import { documents, isUserProperty, members, objectText, singleLine } from "../json.js";
import { keyJson, keyOf, keyText } from "../partition-key.js";
import { empty, failure, loading } from "../placeholders.js";
import { link } from "../routes.js";

const PAGE_SIZE = 100;
const MAX_CELL = 300; // characters
const STARTS = { beginning: "from the beginning", now: "from now on" };
const COLUMNS = [["LSN", "num"], "Id", "Partition key", "Written", "Item"];

export class ChangesView {
  #aborter = new AbortController();
  #route;
  #start = h("select", { "aria-label": "Start of the feed" }, Object.entries(STARTS).map(([name, label]) => h("option", { value: name }, label)));
  #count = h("span", { class: "muted", role: "status" });
  #rows = h("tbody");
  #table = table(COLUMNS, this.#rows, { wrapper: "changes-table" });
  #state = h("div", {});
  #more = button("Load more", () => this.#next(), { hidden: true });
  #definition = null;
  #position = null; // the etag of the last response
  #request = null; // aborts it

  constructor(body, route) {
    this.#route = route;
    this.#start.addEventListener("change", () => this.#restart());
    fill(body,
      h("div", { class: "bar changes-bar" },
        h("label", { class: "check" }, "Changes", this.#start), this.#count, h("div", { class: "grow" }),
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
    this.#position = this.#start.value === "now" ? "*" : null;
    this.#definition = null;
    this.#rows.replaceChildren();
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
      const hasStarted = this.#position !== null && this.#position !== "*";
      fill(this.#state, failure(error, () => (hasStarted ? this.#next() : this.#restart())));
    } finally {
      if (this.#request === request) this.#request = null;
      this.#more.disabled = false;
      if (hadFocus) this.#more.focus();
    }
  }

  async #read(signal) {
    const { database, container } = this.#route;
    this.#definition ??= await api.readContainer(database, container, signal);
    const headers = { "a-im": "Incremental Feed", "x-ms-max-item-count": String(PAGE_SIZE) };
    if (this.#position !== null) headers["if-none-match"] = this.#position;
    return api.call("GET", api.items(database, container), { headers, signal });
  }

  #show(texts) {
    this.#rows.append(...texts.map((text) => this.#row(text)));
    const count = this.#rows.childElementCount;
    this.#table.hidden = !count;
    this.#more.hidden = false;
    this.#more.textContent = texts.length ? "Load more" : "Check for changes";
    this.#count.textContent = count ? plural(count, "change") : "";
    if (texts.length) fill(this.#state);
    else if (count) fill(this.#state, h("p", { class: "muted", role: "status" }, `No more changes as of ${dateTime(clock.now())}.`));
    else if (this.#start.value === "now") fill(this.#state, empty("No changes yet", "Items written from now on are shown here when you check for changes."));
    else fill(this.#state, empty("No changes", "This container has no live items. The feed does not include deleted and expired items."));
  }

  #row(text) {
    const item = JSON.parse(text);
    const key = keyOf(item, this.#definition.partitionKey, () => text);
    const properties = members(text).filter((member) => isUserProperty(member) && member[0] !== "_lsn");
    const content = truncated(singleLine(objectText(properties)), MAX_CELL);
    const address = link({ ...this.#route, tab: "items", rest: [keyJson(key), item.id] });
    return h("tr", {},
      h("td", { class: "num" }, String(item._lsn)),
      h("th", { scope: "row" }, h("a", { href: address }, item.id)),
      h("td", {}, keyText(key)),
      h("td", { class: "written" }, dateTime(item._ts)),
      h("td", { class: "mono", title: content }, content));
  }
}
