// The change feed of a container: the latest version of what was written, in the order of writing.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { button, empty, failure, fill, h, iconButton, loading, moment, plural } from "../dom.js";
import { documents, inline, joined, parts, SYSTEM } from "../json.js";
import { keyJson, keyOf, keyText } from "../keys.js";
import { link } from "../routes.js";

const PAGE = 100;
const LONGEST_CELL = 300; // characters
const STARTS = { beginning: "from the beginning", now: "from now on" };
const HIDDEN = new Set([...SYSTEM, "_lsn"]);

export function changesView(body, { database, container }) {
  const aborter = new AbortController();
  const { signal } = aborter;
  const start = h("select", { "aria-label": "Where to start" }, Object.entries(STARTS).map(([name, label]) => h("option", { value: name }, label)));
  const count = h("span", { class: "muted", role: "status" });
  const rows = h("tbody");
  const table = h("div", { class: "table-wrap changes-table", hidden: true }, h("table", {},
    h("thead", {}, h("tr", {},
      h("th", { scope: "col", class: "num" }, "LSN"),
      h("th", { scope: "col" }, "Id"),
      h("th", { scope: "col" }, "Partition key"),
      h("th", { scope: "col" }, "Written"),
      h("th", { scope: "col" }, "Item"))),
    rows));
  const state = h("div", {});
  const more = button("More", () => next(), { hidden: true });
  fill(body,
    h("div", { class: "bar changes-bar" },
      h("label", { class: "check" }, "Changes", start), count, h("div", { class: "grow" }),
      iconButton("refresh", "Start again", () => begin())),
    table, state, more);

  let definition = null;
  let position = null; // the etag of the last answer
  let asking = null; // aborts the request that is under way

  async function begin() {
    asking?.abort();
    asking = null;
    position = start.value === "now" ? "*" : null;
    definition = null;
    rows.replaceChildren();
    table.hidden = true;
    more.hidden = true;
    count.textContent = "";
    fill(state, loading("Reading the change feed"));
    await next();
  }

  async function next() {
    if (asking) return;
    const mine = (asking = new AbortController());
    const either = AbortSignal.any([signal, mine.signal]);
    const hadFocus = document.activeElement === more;
    more.disabled = true;
    try {
      definition ??= await api.readContainer(database, container, either);
      const headers = { "a-im": "Incremental Feed", "x-ms-max-item-count": String(PAGE) };
      if (position !== null) headers["if-none-match"] = position;
      const answer = await api.call("GET", [...api.container(database, container), "docs"], { headers, signal: either });
      position = answer.headers.get("etag");
      show(answer.status === 304 ? [] : documents(answer.text));
    } catch (error) {
      if (error.name === "AbortError") return;
      more.hidden = true;
      fill(state, failure(error, () => (position === null || position === "*" ? begin() : next())));
    } finally {
      if (asking === mine) asking = null;
      more.disabled = false;
      if (hadFocus) more.focus();
    }
  }

  function show(texts) {
    rows.append(...texts.map(row));
    const shown = rows.childElementCount;
    table.hidden = !shown;
    more.hidden = false;
    more.textContent = texts.length ? "More" : "Look again";
    count.textContent = shown ? plural(shown, "change") : "";
    if (texts.length) fill(state);
    else if (shown) fill(state, h("p", { class: "muted", role: "status" }, `Nothing more was written, as of ${moment(clock.now())}.`));
    else if (start.value === "now") fill(state, empty("No changes yet", "What is written from now on is shown here when you look again."));
    else fill(state, empty("No changes", "Nothing that lives was written here. Deletes and ends are not in this feed."));
  }

  function row(text) {
    const item = JSON.parse(text);
    const key = keyOf(item, definition.partitionKey, () => text);
    const own = inline(joined(parts(text).filter(([name]) => !HIDDEN.has(name))));
    const beginning = own.length > LONGEST_CELL ? `${own.slice(0, LONGEST_CELL)}…` : own;
    return h("tr", {},
      h("td", { class: "num" }, String(item._lsn)),
      h("th", { scope: "row" }, h("a", { href: link({ database, container, tab: "items", rest: [keyJson(key), item.id] }) }, item.id)),
      h("td", {}, keyText(key)),
      h("td", { class: "written" }, moment(item._ts)),
      h("td", { class: "mono", title: beginning }, beginning));
  }

  start.addEventListener("change", begin);
  begin();
  return { dispose: () => aborter.abort(), refresh: begin };
}
