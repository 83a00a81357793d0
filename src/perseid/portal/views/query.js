// Runs a query page by page, and shows its rows, its plan and its metrics.

import * as api from "../api.js";
import { CodeEditor, codeView } from "../code-editor.js";
import { button, errorBox, field, figure, fill, h, textInput } from "../elements.js";
import { number, plural } from "../formats.js";
import { jsonSpans, plainSpans, sqlSpans } from "../highlight.js";
import { compact, documents, jsonError, members, pretty } from "../json.js";
import { empty, loading } from "../placeholders.js";
import { exportButtons } from "../row-export.js";
import { metricsTable, parseMetrics, resultTable } from "./query-result.js";

const STORED_QUERY = "perseid.query"; // in session storage, for each container
const TABS = { table: "Table", json: "JSON", plan: "Plan & metrics" };
const PAGE_SIZES = [25, 100, 500];
const DEFAULT_PAGE_SIZE = 100;

export class QueryView {
  #aborter = new AbortController();
  #database;
  #container;
  #storageKey;
  #query;
  #parameters = textInput({ class: "mono", placeholder: '{"@name": "ada"}' });
  #partitionKey = textInput({ class: "mono", placeholder: '"ada"' });
  #pageSize = h("select", {}, PAGE_SIZES.map((n) => h("option", { value: n, selected: n === DEFAULT_PAGE_SIZE }, n)));
  #error = errorBox();
  #summary = h("p", { class: "muted", role: "status" });
  #tabs = h("div", { class: "tabs small", role: "tablist", "aria-label": "Result" });
  #export;
  #resultBar;
  #panel = h("div", { role: "tabpanel", tabindex: "-1" });
  #more = button("Load more", () => this.#next(), { hidden: true });
  #run = button("Run", () => (this.#running ? this.#running.abort() : this.#start()), { kind: "primary", title: "Ctrl+Enter" });

  #request = null; // {query, parameters, partitionKey, headers} of the rows; parameters and key are JSON
  #running = null; // aborts the current request
  #rows = []; // JSON texts
  #pages = []; // {charge, milliseconds, metrics}
  #continuation = null;
  #tab = "table";
  #plan = null; // a promise, after the tab was opened

  constructor(body, { database, container }) {
    this.#database = database;
    this.#container = container;
    this.#storageKey = `${STORED_QUERY}.${database}/${container}`;
    this.#query = new CodeEditor(sqlSpans, { label: "Query", value: sessionStorage.getItem(this.#storageKey) ?? "SELECT * FROM c", rows: 5 });
    this.#export = exportButtons(container, () => this.#rows);
    this.#resultBar = h("div", { class: "bar result-bar", hidden: true }, this.#tabs, h("div", { class: "grow" }), this.#export);
    fill(body,
      this.#query.node,
      h("div", { class: "bar query-bar" }, this.#run, this.#options(), h("div", { class: "grow" }), this.#summary),
      this.#error.node, this.#resultBar, this.#panel, this.#more);
    body.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
      event.preventDefault();
      if (!this.#running) this.#start();
    });
  }

  dispose() {
    sessionStorage.setItem(this.#storageKey, this.#query.value);
    this.#running?.abort();
    this.#aborter.abort();
  }

  #options() {
    const closeOnEscape = (event) => {
      if (event.key !== "Escape") return;
      event.currentTarget.open = false;
      event.currentTarget.querySelector("summary").focus();
    };
    return h("details", { class: "options", onkeydown: closeOnEscape }, h("summary", {}, "Options"),
      h("div", { class: "options-body" },
        field("Parameters", this.#parameters, "A JSON object of names and values."),
        field("Partition key", this.#partitionKey, "A JSON value. Limits the query to one partition."),
        field("Page size", this.#pageSize)));
  }

  // Running

  async #start() {
    this.#error.hide();
    sessionStorage.setItem(this.#storageKey, this.#query.value);
    try {
      this.#request = this.#buildRequest();
    } catch (error) {
      return this.#showError(error);
    }
    this.#rows = [];
    this.#pages = [];
    this.#plan = null;
    this.#continuation = null;
    await this.#next();
  }

  #buildRequest() {
    const parameters = parseJson(this.#parameters.value, "The parameters") ?? "{}";
    if (!/^[{[]/.test(parameters)) throw new Error('The parameters must be a JSON object of names and values, like {"@name": "ada"}.');
    const list = parameters[0] === "[" ? parameters : `[${members(parameters).map(parameterJson).join(",")}]`;
    const key = parseJson(this.#partitionKey.value, "The partition key");
    const partitionKey = key === null || key[0] === "[" ? key : `[${key}]`;
    return {
      query: this.#query.value,
      parameters: list,
      partitionKey,
      headers: {
        "x-ms-max-item-count": this.#pageSize.value,
        "x-ms-documentdb-populatequerymetrics": "true",
        ...(partitionKey !== null && api.partitionKeyHeader(partitionKey)),
      },
    };
  }

  async #next() {
    this.#running = new AbortController();
    const hadFocus = document.activeElement === this.#more; // a disabled button loses it
    this.#run.textContent = "Stop";
    this.#more.disabled = true;
    if (!this.#rows.length) fill(this.#panel, loading("Running"));
    try {
      await this.#readPage(this.#running.signal);
      this.#drawKeepingScroll();
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#running = null;
      this.#run.textContent = "Run";
      this.#more.disabled = false;
      if (hadFocus && document.activeElement === document.body) (this.#more.hidden ? this.#panel : this.#more).focus();
    }
  }

  async #readPage(signal) {
    const { query, parameters, headers } = this.#request;
    const startedAt = performance.now();
    const body = `{"query":${JSON.stringify(query)},"parameters":${parameters}}`;
    const pageHeaders = this.#continuation ? { ...headers, "x-ms-continuation": this.#continuation } : headers;
    const response = await api.query(api.items(this.#database, this.#container), body, pageHeaders, signal);
    this.#rows.push(...documents(response.text));
    this.#pages.push({
      charge: Number(response.headers.get("x-ms-request-charge")),
      milliseconds: performance.now() - startedAt,
      metrics: parseMetrics(response.headers.get("x-ms-documentdb-query-metrics")),
    });
    this.#continuation = response.headers.get("x-ms-continuation");
  }

  #fail(error) {
    if (!this.#rows.length) {
      fill(this.#panel);
      this.#resultBar.hidden = true;
      this.#more.hidden = true;
      this.#summary.textContent = "";
    }
    if (error.name === "AbortError") this.#summary.textContent = "Stopped";
    else this.#showError(error);
  }

  #showError(error) {
    const location = error.errors?.find((each) => each.location)?.location;
    if (!location) return this.#error.show(error.message);
    const { query } = this.#request;
    const characters = [...query]; // the server counts characters, JavaScript counts UTF-16 units
    const textBefore = (position) => characters.slice(0, position).join("");
    const lines = textBefore(location.start).split("\n");
    this.#error.show(`${error.message}\nLine ${lines.length}, column ${[...lines.at(-1)].length + 1}`);
    if (this.#query.value === query) this.#query.mark(textBefore(location.start).length, textBefore(location.end).length);
  }

  // Drawing

  #drawKeepingScroll() {
    const scrollable = () => this.#panel.querySelector(".result, .code-view");
    const { scrollTop = 0, scrollLeft = 0 } = scrollable() ?? {};
    this.#draw();
    scrollable()?.scrollTo(scrollLeft, scrollTop);
  }

  #draw() {
    const total = (name) => this.#pages.reduce((sum, page) => sum + page[name], 0);
    this.#summary.textContent = `${plural(this.#rows.length, "row")}${this.#continuation ? " so far" : ""} · ${total("charge").toFixed(2)} RU · ${total("milliseconds").toFixed(0)} ms`;
    this.#resultBar.hidden = false;
    this.#export.hidden = !this.#rows.length || this.#tab === "plan";
    this.#more.hidden = !this.#continuation || this.#tab === "plan";
    fill(this.#tabs, Object.keys(TABS).map((name) => this.#tabButton(name)));
    this.#panel.setAttribute("aria-label", TABS[this.#tab]);
    if (this.#tab === "plan") this.#drawPlan();
    else fill(this.#panel, this.#result());
  }

  #result() {
    if (!this.#rows.length && this.#continuation) return empty("No rows so far", "The query is not finished. Load more to continue.");
    if (!this.#rows.length) return empty("No rows", "The query is valid, but no item matches it.");
    if (this.#tab === "table") return resultTable(this.#rows);
    return codeView(jsonSpans, pretty(`[${this.#rows.join(",")}]`), "Result as JSON");
  }

  #tabButton(name) {
    const names = Object.keys(TABS);
    const isSelected = name === this.#tab;
    return h("button", {
      type: "button",
      role: "tab",
      "aria-selected": String(isSelected),
      tabindex: isSelected ? "0" : "-1",
      onclick: () => this.#select(name),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        this.#select(names[(names.indexOf(name) + step + names.length) % names.length]);
        this.#tabs.querySelector("[aria-selected=true]").focus();
      },
    }, TABS[name]);
  }

  #select(name) {
    this.#tab = name;
    this.#draw();
  }

  async #drawPlan() {
    const node = h("div", {}, loading("Loading the plan"));
    fill(this.#panel, h("div", { class: "plan" }, node, metricsTable(this.#pages)));
    this.#plan ??= this.#explain();
    try {
      const { index, examined, returned, refusal, tree } = await this.#plan;
      fill(node,
        h("dl", { class: "figures" },
          figure("Index used", index ?? "none"),
          figure("Items examined", number(examined)),
          figure("Rows on the first page", number(returned))),
        refusal ? h("p", { class: "note" }, `The cloud service refuses this query: ${refusal.message}`) : "",
        codeView(plainSpans, tree, "Plan"));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(node, h("p", { class: "note" }, error.status === 403 ? "Query plans require a master key." : error.message));
    }
  }

  /** Explains the query and runs its first page, for the counts. */
  #explain() {
    const { query, parameters, partitionKey } = this.#request;
    const fields = JSON.stringify({ database: this.#database, container: this.#container, query, analyze: true }).slice(0, -1);
    const body = `${fields},"parameters":${parameters}${partitionKey === null ? "" : `,"partitionKey":${partitionKey}`}}`;
    return api.admin("POST", ["explain"], { body, signal: this.#aborter.signal });
  }
}

/** The JSON that was typed, still as text: JavaScript cannot represent every number. */
function parseJson(typed, name) {
  if (!typed.trim()) return null;
  const invalid = jsonError(typed);
  if (invalid) throw new Error(`${name} must be JSON: ${invalid.reason}.`);
  return compact(typed);
}

const parameterJson = ([name, value]) => `{"name":${JSON.stringify(name.startsWith("@") ? name : `@${name}`)},"value":${value}}`;
