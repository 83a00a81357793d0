// The rows of a query as a table, and the metrics of its pages.

import { fill, h, table } from "../elements.js";
import { bytes, number, truncated } from "../formats.js";
import { members, singleLine, SYSTEM_PROPERTIES } from "../json.js";
import { keyJson, keyOf, namesOf } from "../partition-key.js";
import { link } from "../routes.js";

const MAX_COLUMNS = 40;
const MAX_CELL = 1_000; // characters

const milliseconds = (n) => `${(n ?? 0).toFixed(2)} ms`;

const METRICS = [
  ["Charge", ({ charge }) => `${charge.toFixed(2)} RU`],
  ["Rows", ({ metrics }) => number(metrics.outputDocumentCount ?? 0)],
  ["Items from the database", ({ metrics }) => number(metrics.retrievedDocumentCount ?? 0)],
  ["Their size", ({ metrics }) => bytes(metrics.retrievedDocumentSize ?? 0)],
  ["Database time", ({ metrics }) => milliseconds(metrics.documentLoadTimeInMs)],
  ["Evaluation time", ({ metrics }) => milliseconds(metrics.VMExecutionTimeInMs)],
  ["Time on the server", ({ metrics }) => milliseconds(metrics.totalExecutionTimeInMs)],
];

/** The metrics in a response header like "name=1.5;other=2". */
export function parseMetrics(header) {
  return Object.fromEntries((header ?? "").split(";").filter(Boolean).map((pair) => {
    const [name, value] = pair.split("=");
    return [name, Number(value)];
  }));
}

export function metricsTable(pages) {
  const columns = ["Page", ...METRICS.map(([name]) => [name, "num"])];
  return table(columns, pages.map((page, index) => h("tr", {},
    h("th", { scope: "row" }, index + 1),
    METRICS.map(([, value]) => h("td", { class: "num" }, value(page))))), { caption: "Metrics of each page" });
}

/**
 * The address of the item that a row shows, or null. A row shows an item if it is the item, or if
 * the query selects the id and the key without changing them.
 */
export function itemAddress(row, { definition, selection, request, route }) {
  if (!definition || !row.startsWith("{")) return null;
  const { partitionKey } = definition;
  const item = JSON.parse(row);
  if (typeof item.id !== "string") return null;
  const to = (key) => link({ ...route, tab: "items", rest: [key, item.id] });
  if (selection.areItems) {
    const isItem = item._rid && item._self === `${definition._self}docs/${item._rid}/`;
    return isItem ? to(keyJson(keyOf(item, partitionKey, () => row))) : null;
  }
  if (!selection.names.has("id")) return null;
  const count = partitionKey.systemKey ? 0 : partitionKey.paths.length;
  if (request.partitionKey && members(request.partitionKey).length === count) return to(request.partitionKey);
  const key = keyOf(item, partitionKey, () => row);
  const isComplete = count > 0 && !key.includes("{}") && partitionKey.paths.every((path) => selection.names.has(namesOf(path)[0]));
  return isComplete ? to(keyJson(key)) : null;
}

/** One column for each property, and one for rows that are not objects; `addressOf(row)` is its item's, or null. */
export function resultTable(rows, addressOf = () => null) {
  const split = rows.map((row) => (row.startsWith("{") ? new Map(members(row)) : null));
  const names = columnNames(split);
  const columns = names.slice(0, MAX_COLUMNS);
  const omitted = names.length - columns.length;
  const hasValues = split.includes(null);
  const isNumeric = (name) => split.every((properties) => /^(?:-?\d|undefined)/.test(String(properties?.get(name))));
  const heads = [...(hasValues ? ["value"] : []), ...columns.map((name) => [name, isNumeric(name) ? "num" : null])];
  const note = omitted > 0 && h("p", { class: "hint" }, `${number(omitted)} more ${omitted === 1 ? "property is" : "properties are"} not shown here. The JSON tab shows all properties.`);
  const cells = (row, properties) => columns.map((name) =>
    (name === "id" && properties ? idCell(properties.get(name), addressOf(row)) : valueCell(properties?.get(name))));
  return h("div", { class: "stack" }, note, table(heads, rows.map((row, index) => h("tr", {},
    hasValues && valueCell(split[index] ? undefined : row), cells(row, split[index]))), { wrapper: "result" }));
}

/** The names of all properties. Of whole items the system properties are left out, but for _ts. */
function columnNames(rows) {
  const names = [...new Set(rows.flatMap((properties) => (properties ? [...properties.keys()] : [])))];
  const areItems = [...SYSTEM_PROPERTIES].every((name) => names.includes(name));
  const isShown = (name) => name !== "_ts" && (!areItems || !SYSTEM_PROPERTIES.has(name));
  return [...names.filter(isShown), ...names.filter((name) => name === "_ts")];
}

function idCell(json, address) {
  const cell = valueCell(json);
  if (address) fill(cell, h("a", { href: address, title: "Open this item" }, cell.textContent));
  return cell;
}

function valueCell(json) {
  if (json === undefined) return h("td", { class: "absent" });
  const isString = json[0] === '"';
  const text = truncated(isString ? JSON.parse(json) : singleLine(json), MAX_CELL);
  const kind = isString ? null : /^-?\d/.test(json) ? "num code-number" : "mono code-keyword";
  return h("td", { class: kind, title: text }, text);
}
