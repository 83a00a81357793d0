// Runs a query page by page, and shows its rows, a chart, its plan and its metrics.

import * as api from "../api.js";
import { CodeEditor, codeView } from "../code-editor.js";
import { Completion } from "../completion.js";
import { button, errorBox, figure, fill, h } from "../elements.js";
import { number, plural } from "../formats.js";
import { jsonSpans, plainSpans, sqlSpans } from "../highlight.js";
import { documents, pretty } from "../json.js";
import { empty, loading } from "../placeholders.js";
import { PropertyPaths } from "../property-paths.js";
import { chooseFromHistory, chooseSaved, saveQuery } from "../query-dialogs.js";
import { QueryHistory, SavedQueries } from "../query-history.js";
import { selectionOf } from "../query-language.js";
import { contentOf, MAX_LINK, segmentsOf } from "../query-link.js";
import { ParameterFields } from "../query-parameters.js";
import { link, replaceRoute } from "../routes.js";
import { copyText, exportButtons } from "../row-export.js";
import { readStored, store } from "../storage.js";
import { advice, firstRunNote, planHelp } from "./query-advice.js";
import { ResultChart } from "./query-chart.js";
import { QueryOptions } from "./query-options.js";
import { itemAddress, metricsTable, parseMetrics, resultTable } from "./query-result.js";

const STORED_QUERY = "perseid.query"; // in session storage, for each container
const TABS = { table: "Table", json: "JSON", chart: "Chart", plan: "Plan & metrics" };
const FIRST_QUERY = { query: "SELECT * FROM c", parameters: {}, partitionKey: null, pageSize: null };
const SAMPLE_SIZE = 50; // items that are read for the names of properties
const LEARNED_ROWS = 100; // rows of a result that add names of properties

/** The keys of this page, as [keys, what they do]. */
export const shortcuts = [
  ["Ctrl + Enter", "Run the query; on a Mac Cmd + Enter"],
  ["Ctrl + Space", "Suggest properties, functions and keywords"],
  ["Enter or Tab", "Accept the selected suggestion"],
  ["Esc", "Close the suggestions or the options"],
  ["← →", "Switch between the tabs of a result, or read the values of a chart"],
];

export class QueryView {
  #aborter = new AbortController();
  #route; // {database, container}
  #storageKey;
  #query;
  #completion;
  #paths = new PropertyPaths();
  #history;
  #saved;
  #savedName = null; // of the saved query that is open
  #parameters = new ParameterFields(() => this.#edited());
  #options = new QueryOptions(() => this.#edited(), () => this.#readDefinition(), this.#aborter.signal);
  #error = errorBox();
  #summary = h("p", { class: "muted", role: "status" });
  #tabs = h("div", { class: "tabs small", role: "tablist", "aria-label": "Result" });
  #export;
  #resultBar;
  #panel = h("div", { role: "tabpanel", tabindex: "-1" });
  #more = button("Load more", () => this.#next(), { hidden: true });
  #run = button("Run", () => (this.#running ? this.#running.abort() : this.#start()), { kind: "primary", title: "Ctrl+Enter" });
  #chart = new ResultChart();

  #request = null; // {query, parameters, partitionKey, headers} of the rows; parameters and key are JSON
  #content = null; // of the page when the request was built, for the history
  #running = null; // aborts the current request
  #definition = null; // of the container: a promise, which gives null if it cannot be read
  #container = null; // its result
  #rows = []; // JSON texts
  #pages = []; // {charge, milliseconds, metrics}
  #continuation = null;
  #tab = "table";
  #plan = null; // a promise, after the tab was opened
  #hasQueryInAddress = false;

  constructor(body, { database, container, rest }) {
    this.#route = { database, container };
    this.#storageKey = `${STORED_QUERY}.${database}/${container}`;
    this.#history = new QueryHistory(this.#route);
    this.#saved = new SavedQueries(this.#route);
    this.#query = new CodeEditor(sqlSpans, { label: "Query", rows: 5 });
    this.#completion = new Completion(this.#query, this.#paths, () => this.#readSample());
    this.#query.area.addEventListener("input", () => {
      this.#parameters.update(this.#query.value);
      this.#edited();
    });
    this.#export = exportButtons(container, () => this.#rows);
    this.#resultBar = h("div", { class: "bar result-bar", hidden: true }, this.#tabs, h("div", { class: "grow" }), this.#export);
    fill(body,
      this.#completion.node,
      this.#parameters.node,
      h("div", { class: "bar query-bar" }, this.#run, this.#options.node, this.#tools(), h("div", { class: "grow" }), this.#summary),
      this.#error.node, this.#resultBar, this.#panel, this.#more);
    body.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
      event.preventDefault();
      this.#completion.close();
      if (!this.#running) this.#start();
    });
    this.#show(readStored(this.#storageKey, "sessionStorage") ?? FIRST_QUERY);
    this.#openAddress(rest);
  }

  dispose() {
    this.#keep();
    this.#running?.abort();
    this.#aborter.abort();
  }

  /** Another address of the same page: a link to a query, or the plain one. */
  update({ rest }) {
    this.#openAddress(rest);
  }

  /** The definition of the container, which names the partition key in the options. */
  #readDefinition() {
    const read = () => api.readContainer(this.#route.database, this.#route.container, this.#aborter.signal);
    this.#definition ??= read().then((definition) => {
      this.#options.describeKey(definition.partitionKey);
      return definition;
    }).catch(() => null);
  }

  #tools() {
    const open = async (choose, list) => {
      const entry = await choose(list);
      if (!entry) return;
      this.#show(entry);
      this.#edited();
      this.#savedName = entry.name ?? null;
      this.#query.area.focus();
    };
    return h("div", { class: "row wrap query-tools", role: "group", "aria-label": "Queries" },
      button("History", () => open(chooseFromHistory, this.#history), { kind: "small" }),
      button("Saved", () => open(chooseSaved, this.#saved), { kind: "small", title: "Saved queries" }),
      button("Save", async () => {
        this.#savedName = await saveQuery(this.#saved, this.#pageContent(), this.#savedName) ?? this.#savedName;
      }, { kind: "small", title: "Save this query under a name, in this browser" }),
      button("Copy link", () => this.#copyLink(), { kind: "small", title: "Copy the address of this query; it does not contain the key" }));
  }

  // What the page contains: {query, parameters, partitionKey, pageSize}

  #show({ query, parameters, partitionKey, pageSize }) {
    this.#query.value = query;
    this.#parameters.update(query);
    this.#parameters.fill(parameters ?? {});
    this.#options.show(partitionKey, pageSize);
    this.#completion.close();
  }

  #pageContent() {
    return {
      query: this.#query.value,
      parameters: this.#parameters.knownValues(),
      partitionKey: this.#options.knownKey(),
      pageSize: this.#options.otherPageSize,
    };
  }

  #keep() {
    store(this.#storageKey, this.#pageContent(), "sessionStorage");
  }

  /** Shows the query in the address and runs it: queries change nothing. */
  #openAddress(rest) {
    const content = contentOf(rest);
    this.#hasQueryInAddress = content !== null;
    if (!content) return;
    this.#running?.abort();
    this.#show(content);
    this.#savedName = null;
    this.#start();
  }

  /** The page no longer contains the query in its address. */
  #edited() {
    if (!this.#hasQueryInAddress) return;
    this.#hasQueryInAddress = false;
    replaceRoute({ ...this.#route, tab: "query" });
  }

  #copyLink() {
    const address = new URL(link({ ...this.#route, tab: "query", rest: segmentsOf(this.#pageContent()) }), location.href).href;
    if (address.length <= MAX_LINK) return copyText(address, "Link copied", "Save the query instead.");
    this.#error.show(`The link would have ${number(address.length)} characters, and many programs cut addresses of more than ${number(MAX_LINK)}. Save the query under a name, or send its text.`);
  }

  // Running

  async #start() {
    this.#error.hide();
    this.#keep();
    try {
      this.#request = this.#buildRequest();
    } catch (error) {
      this.#forgetRows();
      this.#clearResult(); // it would look like the result of this query
      return this.#error.show(error.message);
    }
    this.#content = this.#pageContent();
    this.#readDefinition();
    this.#forgetRows();
    await this.#next();
  }

  #forgetRows() {
    this.#rows = [];
    this.#pages = [];
    this.#plan = null;
    this.#continuation = null;
  }

  #clearResult() {
    fill(this.#panel);
    fill(this.#tabs);
    this.#resultBar.hidden = true;
    this.#more.hidden = true;
    this.#summary.textContent = "";
  }

  #buildRequest() {
    const values = Object.entries(this.#parameters.values());
    const list = `[${values.map(([name, value]) => `{"name":${JSON.stringify(name)},"value":${value}}`).join(",")}]`;
    const key = this.#options.key();
    const partitionKey = key === null || key[0] === "[" ? key : `[${key}]`;
    return {
      query: this.#query.value,
      parameters: list,
      partitionKey,
      headers: {
        "x-ms-max-item-count": String(this.#options.pageSize),
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
    const response = await api.query(api.items(this.#route.database, this.#route.container), body, pageHeaders, signal);
    this.#container = await this.#definition;
    for (const row of documents(response.text)) this.#rows.push(row); // too many for one call
    this.#pages.push({
      charge: Number(response.headers.get("x-ms-request-charge")),
      milliseconds: performance.now() - startedAt,
      metrics: parseMetrics(response.headers.get("x-ms-documentdb-query-metrics")),
    });
    this.#continuation = response.headers.get("x-ms-continuation");
    this.#remember();
  }

  /** Puts the query into the history, and the properties of its rows among the suggestions. */
  #remember() {
    this.#history.add({
      ...this.#content,
      at: Date.now() / 1000,
      rows: this.#rows.length,
      hasMore: this.#continuation !== null,
      charge: this.#total("charge"),
    });
    if (selectionOf(this.#request.query).areItems) for (const row of this.#rows.slice(0, LEARNED_ROWS)) this.#paths.add(JSON.parse(row));
  }

  /** Reads some items, for the names of their properties. */
  async #readSample() {
    const path = api.items(this.#route.database, this.#route.container);
    const response = await api.query(path, { query: `SELECT TOP ${SAMPLE_SIZE} * FROM c` }, {}, this.#aborter.signal);
    for (const item of response.json.Documents) this.#paths.add(item);
  }

  #fail(error) {
    if (!this.#rows.length) this.#clearResult();
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

  #total(name) {
    return this.#pages.reduce((sum, page) => sum + page[name], 0);
  }

  #drawKeepingScroll() {
    const scrollable = () => this.#panel.querySelector(".result, .code-view");
    const { scrollTop = 0, scrollLeft = 0 } = scrollable() ?? {};
    this.#draw();
    scrollable()?.scrollTo(scrollLeft, scrollTop);
  }

  #draw() {
    this.#summary.textContent = `${plural(this.#rows.length, "row")}${this.#continuation ? " so far" : ""} · ${this.#total("charge").toFixed(2)} RU · ${this.#total("milliseconds").toFixed(0)} ms`;
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
    if (this.#tab === "table") return this.#table();
    if (this.#tab === "chart") {
      this.#chart.show(this.#rows);
      return this.#chart.node;
    }
    return codeView(jsonSpans, pretty(`[${this.#rows.join(",")}]`), "Result as JSON");
  }

  #table() {
    const request = this.#request;
    const context = { definition: this.#container, selection: selectionOf(request.query), request, route: this.#route };
    return resultTable(this.#rows, (row) => itemAddress(row, context));
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
    const [firstPage] = this.#pages; // another run may begin meanwhile
    try {
      const plan = await this.#plan;
      const { index, examined, returned, refusal, tree } = plan;
      fill(node,
        advice(plan, this.#route, this.#container),
        firstRunNote(plan, firstPage?.metrics.totalExecutionTimeInMs),
        h("dl", { class: "figures" },
          figure("Index used", index ?? "none"),
          figure("Items examined", number(examined)),
          figure("Rows on the first page", number(returned))),
        refusal ? h("p", { class: "note" }, `The cloud service refuses this query: ${refusal.message}`) : "",
        codeView(plainSpans, tree, "Plan"),
        planHelp());
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(node, h("p", { class: "note" }, error.status === 403 ? "Query plans require a master key." : error.message));
    }
  }

  /** Explains the query and runs its first page, for the counts. */
  #explain() {
    const { query, parameters, partitionKey } = this.#request;
    const fields = JSON.stringify({ ...this.#route, query, analyze: true }).slice(0, -1);
    const body = `${fields},"parameters":${parameters}${partitionKey === null ? "" : `,"partitionKey":${partitionKey}`}}`;
    return api.admin("POST", ["explain"], { body, signal: this.#aborter.signal });
  }
}
