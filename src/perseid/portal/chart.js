// Bar charts over time as SVG: one row of bars for each series, all over the same buckets.

import { h, svg } from "./elements.js";
import { bytes, dateTime, number, plural, timeOfDay, twoDigits } from "./formats.js";

// Pixels
const LEFT = 56;
const RIGHT = 8;
const AXIS = 22;
const GAP = 26;

/** The least of 1, 2, 5, 10, 20 … that is at least `n`. */
function roundUp(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, n)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= n);
}

function axisLabel(second, bucketWidth) {
  const date = new Date(second * 1000);
  if (bucketWidth >= 31_536_000) return String(date.getFullYear());
  if (bucketWidth >= 86_400) return `${twoDigits(date.getDate())} ${date.toLocaleString("en", { month: "short" })}`;
  return bucketWidth >= 60 ? timeOfDay(date) : `${timeOfDay(date)}:${twoDigits(date.getSeconds())}`;
}

/**
 * A chart of buckets ({from, to, …}); `series` is [{key, label, format, short, height}].
 * The arrow keys select a bar; the line above the chart shows the values of the selected bar.
 */
export class BarChart {
  #buckets = [];
  #selected = null;
  #label;
  #series;
  #readout = h("p", { class: "readout", "aria-live": "polite" });
  #frame;

  constructor(label, series) {
    this.#label = label;
    this.#series = series;
    this.#frame = h("div", {
      class: "chart-frame",
      tabindex: "0",
      role: "group",
      "aria-label": `${label}. Use the arrow keys to read the bars.`,
      onpointerleave: () => this.#select(null),
      onblur: () => this.#select(null),
      onkeydown: (event) => this.#onKey(event),
    });
    this.node = h("figure", { class: "chart" }, this.#readout, this.#frame);
    new ResizeObserver(() => this.#draw()).observe(this.#frame);
  }

  show(buckets) {
    this.#buckets = buckets;
    this.#draw();
    this.#describe();
  }

  #describe() {
    const bucket = this.#buckets[this.#selected];
    const total = (key) => this.#buckets.reduce((sum, each) => sum + each[key], 0);
    const values = this.#series.map(({ key, format }) => format(bucket ? bucket[key] : total(key))).join(", ");
    if (bucket) this.#readout.textContent = `${dateTime(bucket.from)} – ${dateTime(bucket.to)}: ${values}`;
    else this.#readout.textContent = this.#buckets.length ? `${values} in total` : "";
  }

  #select(index) {
    this.#selected = index;
    this.#frame.querySelectorAll(".bar-slot").forEach((slot) =>
      slot.classList.toggle("selected", Number(slot.dataset.index) === index));
    this.#describe();
  }

  #onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const last = this.#buckets.length - 1;
    if (step === undefined || last < 0) return;
    event.preventDefault();
    const from = this.#selected ?? (step > 0 ? -1 : last + 1);
    this.#select(Math.min(last, Math.max(0, from + step)));
  }

  #draw() {
    const width = this.#frame.clientWidth;
    if (!width || !this.#buckets.length) return this.#frame.replaceChildren();
    const height = this.#series.reduce((sum, each) => sum + each.height + GAP, 0) + AXIS - 2;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.#label });
    let top = GAP - 4;
    for (const [row, each] of this.#series.entries()) {
      root.append(...this.#scale(each, top, width), ...this.#bars(each, row, top, width));
      top += each.height + GAP;
    }
    root.append(...this.#axis(top - GAP + 16, width));
    this.#frame.replaceChildren(root);
    this.#select(this.#selected !== null && this.#selected < this.#buckets.length ? this.#selected : null);
  }

  #slotWidth = (width) => (width - LEFT - RIGHT) / this.#buckets.length;
  #maximum = (key) => roundUp(Math.max(...this.#buckets.map((bucket) => bucket[key])));

  /** The title of a series and the lines of its scale. */
  #scale({ key, label, short, height }, top, width) {
    const maximum = this.#maximum(key);
    const ticks = [0, maximum / 2, maximum].filter(Number.isInteger);
    return [
      svg("text", { x: 0, y: top - 9, class: "chart-title" }, label),
      ...ticks.flatMap((tick) => {
        const y = top + height - (tick / maximum) * height;
        return [
          svg("line", { x1: LEFT, x2: width - RIGHT, y1: y, y2: y, class: tick ? "grid" : "base" }),
          svg("text", { x: LEFT - 8, y: y + 4, class: "tick", "text-anchor": "end" }, short(tick)),
        ];
      }),
    ];
  }

  #bars({ key, height }, row, top, width) {
    const slot = this.#slotWidth(width);
    const barWidth = Math.max(1, slot - Math.min(6, slot * 0.25));
    const maximum = this.#maximum(key);
    return this.#buckets.map((bucket, index) => {
      const barHeight = bucket[key] ? Math.max(2, (bucket[key] / maximum) * height) : 0;
      const x = LEFT + index * slot;
      return svg("g", { class: `bar-slot series-${row}`, "data-index": index, onpointerenter: () => this.#select(index) },
        svg("rect", { x, y: top, width: slot, height, class: "bar-background" }),
        svg("rect", { x: x + (slot - barWidth) / 2, y: top + height - barHeight, width: barWidth, height: barHeight, rx: Math.min(2, barWidth / 3), class: "bar" }));
    });
  }

  #axis(y, width) {
    const bucketWidth = this.#buckets[0].to - this.#buckets[0].from;
    const labelWidth = bucketWidth < 60 ? 68 : 52;
    const slot = this.#slotWidth(width);
    const every = Math.ceil(labelWidth / slot);
    return this.#buckets.flatMap(({ from }, index) => (index % every
      ? []
      : [svg("text", { x: LEFT + index * slot, y, class: "tick", "text-anchor": "middle" }, axisLabel(from, bucketWidth))]));
  }
}

/** The series of a chart that counts items, and of one that adds up their bytes. */
export const itemSeries = (height) => ({ key: "items", label: "Items", format: (n) => plural(n, "item"), short: number, height });
export const byteSeries = (height) => ({ key: "bytes", label: "Bytes", format: bytes, short: bytes, height });
