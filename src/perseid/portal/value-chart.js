// A chart of values as SVG: bars for categories, or a line over numbers or times. Positions are
// computed with JavaScript's numbers; the texts are those of the rows, with all their digits.

import { h, svg } from "./elements.js";
import { dateTime, truncated } from "./formats.js";

// Pixels
const HEIGHT = 280;
const TOP = 12;
const BOTTOM = 28;
const RIGHT = 14;
const CHARACTER = 6.4; // width of a character of a tick
const TICKS = 5;

/** About `count` round numbers from low to high, in steps of 1, 2 or 5. */
export function roundTicks(low, high, count = TICKS) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step)); // a scale has a length, also for equal values
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

/** A number for a tick: short, without the noise of binary fractions. */
function tickText(n) {
  const size = Math.abs(n);
  return size !== 0 && (size >= 1e9 || size < 1e-4) ? n.toExponential(2).replace(/\.?0+e/, "e") : Number(n.toPrecision(10)).toLocaleString("en", { maximumFractionDigits: 6 });
}

const dayText = (seconds) => dateTime(seconds).slice(0, 10);

/** A time for a tick; `span` is the length of the axis in seconds. */
function timeText(seconds, span) {
  if (span > 3 * 86_400) return dayText(seconds);
  return dateTime(seconds).slice(5, span > 600 ? 16 : 19);
}

/**
 * `show({points, kind, xName, yName})`: a point is {x, y, xText, yText}. Bars have their places in
 * the order of the points; a line ("number" or "time", in seconds) has them sorted by x.
 */
export class ValueChart {
  #content = null;
  #selected = null;
  #readout = h("p", { class: "readout", "aria-live": "polite" });
  #frame;

  constructor() {
    this.#frame = h("div", {
      class: "chart-frame",
      tabindex: "0",
      role: "group",
      onpointermove: (event) => this.#pointAt(event),
      onpointerdown: (event) => this.#pointAt(event),
      onpointerleave: () => this.#select(null),
      onblur: () => this.#select(null),
      onkeydown: (event) => this.#onKey(event),
    });
    this.node = h("figure", { class: "chart value-chart" }, this.#readout, this.#frame);
    new ResizeObserver(() => this.#draw()).observe(this.#frame);
  }

  show(content) {
    this.#content = content;
    this.#selected = null;
    const what = `${content.kind === "bar" ? "Bar chart" : "Line chart"} of ${content.yName} by ${content.xName}, ${content.points.length} points`;
    this.#frame.setAttribute("aria-label", `${what}. Use the arrow keys to read the values; the Table tab lists them.`);
    this.#draw();
  }

  #select(index) {
    this.#selected = index;
    this.#frame.querySelectorAll("[data-index]").forEach((node) => node.classList.toggle("selected", Number(node.dataset.index) === index));
    const { points, xName, yName } = this.#content;
    const point = points[index];
    this.#readout.textContent = point ? `${xName} ${truncated(point.xText, 200)}: ${yName} ${point.yText}` : `${yName} by ${xName}`;
  }

  #onKey(event) {
    const last = this.#content.points.length - 1;
    const at = this.#selected;
    const next = { ArrowRight: (at ?? -1) + 1, ArrowLeft: (at ?? last + 1) - 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.#select(Math.max(0, Math.min(last, next)));
  }

  #pointAt(event) {
    const x = event.clientX - this.#frame.getBoundingClientRect().left;
    const distances = this.#places.map((place) => Math.abs(place - x));
    this.#select(distances.indexOf(Math.min(...distances)));
  }

  #places = []; // the x of each point, in pixels

  #draw() {
    const width = this.#frame.clientWidth;
    if (!width || !this.#content?.points.length) return this.#frame.replaceChildren();
    const { points, kind } = this.#content;
    const values = points.map(({ y }) => y);
    const isBar = kind === "bar";
    const ticks = roundTicks(Math.min(...values, ...(isBar ? [0] : [])), Math.max(...values, ...(isBar ? [0] : [])));
    const left = Math.min(width / 3, 16 + Math.max(...ticks.map((tick) => tickText(tick).length)) * CHARACTER);
    const y = (value) => TOP + (1 - (value - ticks[0]) / (ticks.at(-1) - ticks[0])) * (HEIGHT - TOP - BOTTOM);
    const root = svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" },
      ticks.flatMap((tick) => [
        svg("line", { x1: left, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: tick === 0 ? "base" : "grid" }),
        svg("text", { x: left - 8, y: y(tick) + 4, class: "tick", "text-anchor": "end" }, tickText(tick)),
      ]),
      isBar ? this.#bars(left, width, y) : this.#line(left, width, y));
    this.#frame.replaceChildren(root);
    this.#select(this.#selected);
  }

  #bars(left, width, y) {
    const { points } = this.#content;
    const slot = (width - left - RIGHT) / points.length;
    const barWidth = Math.max(1, Math.min(64, slot - Math.min(8, slot * 0.25)));
    this.#places = points.map((_, index) => left + (index + 0.5) * slot);
    const room = Math.max(56, slot); // of a label
    const every = Math.ceil(room / slot);
    return points.map((point, index) => {
      const x = this.#places[index];
      const [top, bottom] = [y(Math.max(0, point.y)), y(Math.min(0, point.y))];
      return svg("g", { class: "bar-slot", "data-index": index },
        svg("rect", { x: left + index * slot, y: TOP, width: slot, height: HEIGHT - TOP - BOTTOM, class: "bar-background" }),
        svg("rect", { x: x - barWidth / 2, y: top, width: barWidth, height: Math.max(1, bottom - top), rx: Math.min(2, barWidth / 3), class: "bar" }),
        index % every === 0 && svg("text", { x, y: HEIGHT - 8, class: "tick", "text-anchor": "middle" }, truncated(point.xText, Math.max(3, Math.floor((every * slot) / CHARACTER) - 2))));
    });
  }

  #line(left, width, y) {
    const { points, kind } = this.#content;
    const [low, high] = [points[0].x, points.at(-1).x];
    const span = high - low || 1;
    const place = (x) => left + 4 + ((x - low) / span) * (width - left - RIGHT - 8);
    this.#places = points.map((point) => place(point.x));
    const isTime = kind === "time";
    const count = Math.max(1, Math.floor((width - left - RIGHT) / (isTime ? 140 : 90)));
    const ticks = low === high ? [low] : isTime
      ? Array.from({ length: count + 1 }, (_, index) => low + (span * index) / count)
      : roundTicks(low, high, count).filter((tick) => tick >= low && tick <= high);
    const path = points.map((point, index) => `${index ? "L" : "M"}${this.#places[index]} ${y(point.y)}`).join("");
    const anchor = (tick) => (place(tick) > width - 60 ? "end" : place(tick) < left + 40 ? "start" : "middle");
    return [
      ticks.map((tick) => svg("text", { x: place(tick), y: HEIGHT - 8, class: "tick", "text-anchor": anchor(tick) }, isTime ? timeText(tick, span) : tickText(tick))),
      svg("path", { d: path, class: "line" }),
      points.map((point, index) => svg("circle", { cx: this.#places[index], cy: y(point.y), r: points.length > 150 ? 1.5 : 3, class: "dot", "data-index": index })),
    ];
  }
}
