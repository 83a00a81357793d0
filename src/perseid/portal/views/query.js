// A query and what it gives: as a table, as JSON, and how it was answered.

import * as api from "../api.js";
import { codeBox, codeShown } from "../codebox.js";
import { bytes, button, empty, field, fill, h, loading, number, plural } from "../dom.js";
import { compact, documents, flaw, inline, jsonSpans, parts, pretty, sqlSpans, SYSTEM } from "../json.js";
import { taking } from "../taking.js";

const STORED = "perseid.query";
const MOST_COLUMNS = 40;
const LONGEST_CELL = 1_000; // characters
const TABS = { table: "Table", json: "JSON", plan: "Plan & metrics" };

export function queryView(body, { database, container }) {
  const aborter = new AbortController();
  const { signal } = aborter;
  const stored = `${STORED}.${database}/${container}`;
  const text = codeBox(sqlSpans, { label: "Query", value: sessionStorage.getItem(stored) ?? "SELECT * FROM c", rows: 5 });
  const parameters = h("input", { type: "text", class: "mono", placeholder: '{"@name": "ada"}', spellcheck: "false", autocomplete: "off" });
  const scope = h("input", { type: "text", class: "mono", placeholder: '"ada"', spellcheck: "false", autocomplete: "off" });
  const size = h("select", {}, [25, 100, 500].map((n) => h("option", { value: n, selected: n === 100 }, n)));
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const summary = h("p", { class: "muted", role: "status" });
  const tabs = h("div", { class: "tabs small", role: "tablist", "aria-label": "Result" });
  const take = taking(container, () => rows);
  const heading = h("div", { class: "bar result-bar", hidden: true }, tabs, h("div", { class: "grow" }), take);
  const panel = h("div", { role: "tabpanel", tabindex: "-1" });
  const more = button("Load more", () => next(), { hidden: true });
  const run = button("Run", () => (running ? running.abort() : start()), { kind: "primary", title: "Ctrl+Enter" });
  fill(body,
    text.node,
    h("div", { class: "bar query-bar" },
      run,
      h("details", { class: "options", onkeydown: (event) => {
        if (event.key !== "Escape") return;
        event.currentTarget.open = false; // it lies over the rows
        event.currentTarget.querySelector("summary").focus();
      } }, h("summary", {}, "Options"),
        h("div", { class: "options-body" },
          field("Parameters", parameters, "An object of names and values."),
          field("Partition key", scope, "JSON; asks one partition only."),
          field("Page size", size))),
      h("div", { class: "grow" }), summary),
    problem, heading, panel, more);

  let asked = null; // {query, parameters, key, headers} of the query whose rows are shown; but for the first and the last, JSON
  let running = null; // aborts the request that is under way
  let rows = [];
  let pages = [];
  let continuation = null;
  let shown = "table";
  let plan = null; // a promise, once somebody has looked

  async function start() {
    problem.hidden = true;
    sessionStorage.setItem(stored, text.value);
    try {
      asked = request();
    } catch (error) {
      return refuse(error);
    }
    rows = [];
    pages = [];
    plan = null;
    continuation = null;
    await next();
  }

  function request() {
    const given = json(parameters.value, "The parameters") ?? "{}";
    if (!/^[{[]/.test(given)) throw new Error('The parameters must be an object of names and values, like {"@name": "ada"}.');
    const list = given[0] === "[" ? given : `[${parts(given).map(parameter).join(",")}]`;
    const scoped = json(scope.value, "The partition key");
    const key = scoped === null || scoped[0] === "[" ? scoped : `[${scoped}]`;
    const headers = { "x-ms-max-item-count": size.value, "x-ms-documentdb-populatequerymetrics": "true" };
    if (key !== null) headers["x-ms-documentdb-partitionkey"] = api.headerJson(key);
    return { query: text.value, parameters: list, key, headers };
  }

  /** What was typed, still as text: a number may have more digits than a browser can hold. */
  function json(typed, what) {
    if (!typed.trim()) return null;
    const wrong = flaw(typed);
    if (wrong) throw new Error(`${what} must be JSON: ${wrong.why}.`);
    return compact(typed);
  }

  async function next() {
    const mine = (running = new AbortController());
    const hadFocus = document.activeElement === more; // which disabling takes
    run.textContent = "Stop";
    more.disabled = true;
    if (!rows.length) fill(panel, loading("Running"));
    const began = performance.now();
    try {
      const headers = { ...asked.headers };
      const body = `{"query":${JSON.stringify(asked.query)},"parameters":${asked.parameters}}`;
      if (continuation) headers["x-ms-continuation"] = continuation;
      const answer = await api.query([...api.container(database, container), "docs"], body, headers, mine.signal);
      rows.push(...documents(answer.text));
      pages.push({
        charge: Number(answer.headers.get("x-ms-request-charge")),
        milliseconds: performance.now() - began,
        metrics: metricsOf(answer.headers.get("x-ms-documentdb-query-metrics")),
      });
      continuation = answer.headers.get("x-ms-continuation");
      const { scrollTop = 0, scrollLeft = 0 } = panel.querySelector(".result, .code-shown") ?? {};
      draw();
      panel.querySelector(".result, .code-shown")?.scrollTo(scrollLeft, scrollTop); // where the reader was
    } catch (error) {
      if (!rows.length) {
        fill(panel);
        heading.hidden = true;
        more.hidden = true;
        summary.textContent = "";
      }
      if (error.name === "AbortError") summary.textContent = "Stopped";
      else refuse(error);
    } finally {
      running = null;
      run.textContent = "Run";
      more.disabled = false;
      if (hadFocus && document.activeElement === document.body) (more.hidden ? panel : more).focus();
    }
  }

  function refuse(error) {
    const place = error.findings?.find((each) => each.location)?.location;
    problem.textContent = error.message;
    if (place) {
      const letters = [...asked.query]; // the server counts them, text areas count their units
      const [start, end] = [place.start, place.end].map((at) => letters.slice(0, at).join("").length);
      const before = letters.slice(0, place.start).join("").split("\n");
      problem.textContent += `\nLine ${before.length}, column ${[...before.at(-1)].length + 1}`;
      if (text.value === asked.query) text.mark(start, end);
    }
    problem.hidden = false;
  }

  const charge = () => pages.reduce((sum, page) => sum + page.charge, 0);

  function draw() {
    const time = pages.reduce((sum, page) => sum + page.milliseconds, 0);
    summary.textContent = `${plural(rows.length, "row")}${continuation ? " so far" : ""} · ${charge().toFixed(2)} RU · ${time.toFixed(0)} ms`;
    heading.hidden = false;
    take.hidden = !rows.length || shown === "plan";
    more.hidden = !continuation || shown === "plan";
    const ids = Object.keys(TABS);
    fill(tabs, ids.map((name) => h("button", {
      type: "button",
      role: "tab",
      "aria-selected": String(name === shown),
      tabindex: name === shown ? "0" : "-1",
      onclick: () => turn(name),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) turn(ids[(ids.indexOf(name) + step + ids.length) % ids.length], true);
      },
    }, TABS[name])));
    panel.setAttribute("aria-label", TABS[shown]);
    if (shown === "plan") drawPlan();
    else if (!rows.length && continuation) fill(panel, empty("No rows so far", "There is more to look at than one page takes: load more to go on."));
    else if (!rows.length) fill(panel, empty("No rows", "The query is fine; nothing fits it."));
    else if (shown === "table") fill(panel, resultTable(rows));
    else fill(panel, codeShown(jsonSpans, pretty(`[${rows.join(",")}]`), "Result as JSON"));
  }

  function turn(name, hasFocus = false) {
    shown = name;
    draw();
    if (hasFocus) tabs.querySelector("[aria-selected=true]").focus();
  }

  async function drawPlan() {
    const place = h("div", {}, loading("Asking for the plan"));
    fill(panel, h("div", { class: "plan" }, place, metricsTable(pages)));
    const { query, parameters: list, key } = asked;
    const where = JSON.stringify({ database, container, query }).slice(0, -1);
    plan ??= api.admin("POST", ["explain"], `${where},"parameters":${list}${key === null ? "" : `,"partitionKey":${key}`}}`, signal);
    try {
      const found = await plan;
      fill(place,
        h("dl", { class: "figures" },
          figure("Index used", found.index ?? "none"),
          figure("Items looked at", number(found.looked)),
          figure("Rows on the first page", number(found.returned))),
        codeShown((plain) => [["", plain]], found.tree, "Plan"));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(place, h("p", { class: "note" }, error.status === 403 ? "This key may not ask for plans." : error.message));
    }
  }

  body.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      if (!running) start();
    }
  });
  return {
    dispose() {
      sessionStorage.setItem(stored, text.value);
      running?.abort();
      aborter.abort();
    },
  };
}

const parameter = ([name, value]) => `{"name":${JSON.stringify(name.startsWith("@") ? name : `@${name}`)},"value":${value}}`;

const figure = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function metricsOf(header) {
  return Object.fromEntries((header ?? "").split(";").filter(Boolean).map((pair) => {
    const [name, value] = pair.split("=");
    return [name, Number(value)];
  }));
}

const METRICS = [
  ["Charge", (page) => `${page.charge.toFixed(2)} RU`],
  ["Rows", (page) => number(page.metrics.outputDocumentCount ?? 0)],
  ["Items read", (page) => number(page.metrics.retrievedDocumentCount ?? 0)],
  ["Bytes read", (page) => bytes(page.metrics.retrievedDocumentSize ?? 0)],
  ["Reading", (page) => milliseconds(page.metrics.documentLoadTimeInMs)],
  ["Evaluating", (page) => milliseconds(page.metrics.VMExecutionTimeInMs)],
  ["In all, on the server", (page) => milliseconds(page.metrics.totalExecutionTimeInMs)],
];
const milliseconds = (n) => `${(n ?? 0).toFixed(2)} ms`;

function metricsTable(pages) {
  return h("div", { class: "table-wrap" }, h("table", {},
    h("caption", {}, "Metrics of each page"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Page"), METRICS.map(([name]) => h("th", { scope: "col", class: "num" }, name)))),
    h("tbody", {}, pages.map((page, index) => h("tr", {}, h("th", { scope: "row" }, index + 1), METRICS.map(([, show]) => h("td", { class: "num" }, show(page))))))));
}

/** Rows as a table: a column for each property, or one for values that have none. */
function resultTable(rows) {
  const split = rows.map((row) => (row.startsWith("{") ? new Map(parts(row)) : null));
  const names = new Set(split.flatMap((members) => (members ? [...members.keys()] : [])));
  // Whole items bring what only the server needs; who asks for single properties wants them.
  const isWhole = [...SYSTEM].every((name) => names.has(name));
  const wanted = [...names].filter((name) => !isWhole || name === "_ts" || !SYSTEM.has(name));
  const ordered = [...wanted.filter((name) => name !== "_ts"), ...wanted.filter((name) => name === "_ts")];
  const columns = ordered.slice(0, MOST_COLUMNS);
  const missing = ordered.length - columns.length;
  const isNumeric = (name) => split.every((members) => /^(?:-?\d|undefined)/.test(String(members?.get(name))));
  const hasPlain = split.some((members) => !members);
  const note = missing > 0 && h("p", { class: "hint" }, `${number(missing)} more ${missing === 1 ? "property" : "properties"} not shown here; JSON has them all.`);
  return h("div", { class: "stack" }, note, h("div", { class: "table-wrap result" }, h("table", {},
    h("thead", {}, h("tr", {}, hasPlain && h("th", { scope: "col" }, "value"),
      columns.map((name) => h("th", { scope: "col", class: isNumeric(name) ? "num" : null }, name)))),
    h("tbody", {}, rows.map((row, index) => h("tr", {},
      hasPlain && valueCell(split[index] ? undefined : row),
      columns.map((name) => valueCell(split[index]?.get(name)))))))));
}

function valueCell(raw) {
  if (raw === undefined) return h("td", { class: "absent" });
  if (raw[0] === '"') {
    const text = beginning(JSON.parse(raw));
    return h("td", { title: text }, text);
  }
  const kind = /^-?\d/.test(raw) ? "num c-number" : "mono c-word";
  const text = beginning(inline(raw));
  return h("td", { class: kind, title: text }, text);
}

/** As much of a value as a cell and its tooltip have room for; a browser would lay out all of it. */
const beginning = (text) => (text.length > LONGEST_CELL ? `${text.slice(0, LONGEST_CELL)}…` : text);
