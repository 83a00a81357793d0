// The chart of a result: which columns it can show, and the controls to choose them.

import { field, fill, h } from "../elements.js";
import { number, plural } from "../formats.js";
import { members, singleLine } from "../json.js";
import { empty } from "../placeholders.js";
import { ValueChart } from "../value-chart.js";

const ROW_NUMBER = "row number";
const VALUE = "value"; // of rows that are not objects
const MAX_BARS = 200;
const MAX_POINTS = 5_000;
const DATE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;

const isNumber = (json) => /^-?\d/.test(json ?? "") && Number.isFinite(Number(json));
const isScalar = (json) => json !== undefined && !/^[{[]/.test(json);
const textOf = (json) => (json[0] === '"' ? JSON.parse(json) : singleLine(json));

/** Seconds of a date in a JSON string, or NaN. A time without a zone is UTC, as the functions of the query language write it. */
function secondsOf(json) {
  if (json?.[0] !== '"') return NaN;
  const text = JSON.parse(json).replace(" ", "T");
  if (!DATE.test(text)) return NaN;
  return Date.parse(text.length > 10 && !/(?:Z|[+-]\d\d:?\d\d)$/.test(text) ? `${text}Z` : text.replace(/(\.\d{3})\d+/, "$1")) / 1000;
}

/** The columns as [{name, isNumeric, isTime, values}], values as JSON texts or undefined. */
export function chartColumns(rows) {
  const split = rows.map((row) => new Map(row.startsWith("{") ? members(row) : [[VALUE, row]]));
  const names = [...new Set(split.flatMap((row) => [...row.keys()]))];
  return names.map((name) => {
    const values = split.map((row) => row.get(name));
    const given = values.filter((value) => value !== undefined && value !== "null");
    return {
      name,
      values,
      isScalar: given.length > 0 && given.every(isScalar),
      isNumeric: given.length > 0 && given.every(isNumber),
      isTime: given.length > 0 && (name === "_ts" ? given.every(isNumber) : given.every((json) => !Number.isNaN(secondsOf(json)))),
    };
  }).filter((column) => column.isScalar);
}

/** The columns to begin with: y a number that is not the x; x a time, else a text, else a number. */
export function defaultChoice(columns) {
  const numeric = columns.filter(({ isNumeric, isTime }) => isNumeric && !isTime);
  const others = columns.filter((column) => !numeric.includes(column));
  const x = others.find(({ isTime, name }) => isTime && name !== "_ts") ?? others.find(({ isTime }) => !isTime) ?? (numeric.length > 1 ? numeric[0] : others[0]);
  const y = numeric.findLast((column) => column !== x);
  return { x: x?.name ?? ROW_NUMBER, y: y?.name ?? null, kind: kindFor(x) };
}

const kindFor = (column) => (column && (column.isTime || column.isNumeric) ? "line" : "bar");

/** Draws the chart of rows into `node`; the choice of columns stays when more rows are loaded. */
export class ResultChart {
  node = h("div", { class: "stack" });
  #chart = new ValueChart();
  #choice = null; // {x, y, kind}
  #signature = null; // of the columns that the choice is for
  #columns = [];
  #note = h("p", { class: "hint", role: "status" });
  #kind = h("select", { onchange: () => this.#chosen({ kind: this.#kind.value }) }, h("option", { value: "bar" }, "Bars"), h("option", { value: "line" }, "Line"));
  #x = h("select", { onchange: () => this.#chosen({ x: this.#x.value, kind: kindFor(this.#column(this.#x.value)) }) });
  #y = h("select", { onchange: () => this.#chosen({ y: this.#y.value }) });
  #controls = h("div", { class: "bar chart-controls" }, field("Chart type", this.#kind), field("Horizontal", this.#x), field("Vertical", this.#y));

  show(rows) {
    this.#columns = chartColumns(rows);
    const signature = this.#columns.map(({ name, isNumeric }) => `${name}:${isNumeric}`).join("\n");
    if (signature !== this.#signature) this.#choice = defaultChoice(this.#columns);
    this.#signature = signature;
    if (this.#choice.y === null) {
      return fill(this.node, empty("No numbers to draw", "A chart needs a column of numbers. Select one, for example SELECT c.kind, COUNT(1) AS n FROM c GROUP BY c.kind."));
    }
    const option = (name) => h("option", { value: name }, name);
    fill(this.#x, [...this.#columns.map(({ name }) => option(name)), option(ROW_NUMBER)]);
    fill(this.#y, this.#columns.filter(({ isNumeric }) => isNumeric).map(({ name }) => option(name)));
    if (this.#controls.parentNode !== this.node) fill(this.node, this.#controls, this.#chart.node, this.#note);
    this.#draw();
  }

  #chosen(change) {
    Object.assign(this.#choice, change);
    this.#draw();
  }

  #column(name) {
    return this.#columns.find((column) => column.name === name);
  }

  #draw() {
    const { x, y, kind } = this.#choice;
    Object.assign(this.#x, { value: x });
    Object.assign(this.#y, { value: y });
    Object.assign(this.#kind, { value: kind });
    const column = this.#column(x);
    const isLine = kind === "line";
    const all = this.#points(column, this.#column(y), isLine);
    const points = all.slice(0, isLine ? MAX_POINTS : MAX_BARS);
    const omitted = this.#column(y).values.length - all.length;
    const notes = [
      omitted > 0 && `${plural(omitted, "row")} without a ${isLine ? "position or a " : ""}value ${omitted === 1 ? "is" : "are"} left out.`,
      points.length < all.length && `The first ${number(points.length)} of ${number(all.length)} rows.`,
    ];
    this.#note.textContent = notes.filter(Boolean).join(" ");
    const lineKind = column?.isTime ? "time" : "number";
    this.#chart.show({ points, kind: isLine ? lineKind : "bar", xName: x, yName: y });
  }

  /** The points of the rows that have a value; those of a line have a position and are sorted by it. */
  #points(column, values, isLine) {
    const position = (index) => {
      if (!column) return index + 1;
      const json = column.values[index];
      if (json === undefined || json === "null") return NaN;
      if (json[0] === '"') return column.isTime ? secondsOf(json) : NaN;
      return Number(json);
    };
    const isOrdinal = isLine && column && !column.isTime && !column.isNumeric; // texts in the order of the rows
    const points = values.values.map((json, index) => ({
      x: isOrdinal ? index + 1 : position(index),
      y: isNumber(json) ? Number(json) : NaN,
      xText: column ? (column.values[index] === undefined ? "(none)" : textOf(column.values[index])) : String(index + 1),
      yText: json,
    })).filter((point) => !Number.isNaN(point.y) && (!isLine || !Number.isNaN(point.x)));
    return isLine ? points.sort((a, b) => a.x - b.x) : points;
  }
}
