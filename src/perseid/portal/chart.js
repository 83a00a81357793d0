// Bars over time, drawn by hand as SVG: one row of bars for each series over the same buckets.

import { h, moment, svg } from "./dom.js";

const LEFT = 56;
const RIGHT = 8;
const AXIS = 22;
const GAP = 26;

/** The least of 1, 2, 5, 10, 20 … that is not below `n`. */
function nice(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, n)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= n);
}

function clockText(second, width) {
  const date = new Date(second * 1000);
  const two = (n) => String(n).padStart(2, "0");
  const day = `${two(date.getDate())} ${date.toLocaleString("en", { month: "short" })}`;
  if (width >= 31_536_000) return String(date.getFullYear());
  if (width >= 86_400) return day;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return width >= 60 ? time : `${time}:${two(date.getSeconds())}`;
}

/**
 * A chart of `buckets` ({from, to, …}); `series` is [{key, label, format, height}].
 * The arrow keys walk along the bars; a line above says what the chosen one holds.
 */
export function timeBars(label, series) {
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const frame = h("div", { class: "chart-frame", tabindex: "0", role: "group", "aria-label": `${label}. Arrow keys read the bars.` });
  const node = h("figure", { class: "chart" }, readout, frame);
  let buckets = [];
  let chosen = null;

  function say() {
    const bucket = buckets[chosen];
    if (!bucket) {
      const totals = series.map((each) => each.format(buckets.reduce((sum, b) => sum + b[each.key], 0)));
      readout.textContent = buckets.length ? `In all ${totals.join(", ")}` : "";
      return;
    }
    const held = series.map((each) => each.format(bucket[each.key])).join(", ");
    readout.textContent = `${moment(bucket.from)} – ${moment(bucket.to)}: ${held}`;
  }

  function choose(index) {
    chosen = index;
    frame.querySelectorAll(".bar-slot").forEach((slot) =>
      slot.classList.toggle("chosen", Number(slot.dataset.index) === index));
    say();
  }

  function draw() {
    const width = frame.clientWidth;
    if (!width || !buckets.length) return frame.replaceChildren();
    const plot = width - LEFT - RIGHT;
    const slot = plot / buckets.length;
    const bar = Math.max(1, slot - Math.min(6, slot * 0.25));
    const size = buckets[0].to - buckets[0].from;
    const height = series.reduce((sum, each) => sum + each.height + GAP, 0) + AXIS - 2;
    const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    let top = GAP - 4;
    for (const [row, each] of series.entries()) {
      const most = nice(Math.max(...buckets.map((b) => b[each.key])));
      const y = (value) => top + each.height - (value / most) * each.height;
      root.append(svg("text", { x: 0, y: top - 9, class: "chart-title" }, each.label));
      for (const tick of [0, most / 2, most]) {
        if (!Number.isInteger(tick)) continue;
        root.append(
          svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: tick ? "grid" : "base" }),
          svg("text", { x: LEFT - 8, y: y(tick) + 4, class: "tick", "text-anchor": "end" }, each.short(tick)),
        );
      }
      buckets.forEach((bucket, index) => {
        const value = bucket[each.key];
        const tall = value ? Math.max(2, top + each.height - y(value)) : 0;
        const group = svg("g", { class: `bar-slot series-${row}`, "data-index": index, onpointerenter: () => choose(index) },
          svg("rect", { x: LEFT + index * slot, y: top, width: slot, height: each.height, class: "bar-room" }),
          svg("rect", { x: LEFT + index * slot + (slot - bar) / 2, y: top + each.height - tall, width: bar, height: tall, rx: Math.min(2, bar / 3), class: "bar" }));
        root.append(group);
      });
      top += each.height + GAP;
    }
    const room = size < 60 ? 68 : 52;
    const every = Math.ceil(buckets.length / Math.max(1, Math.floor(plot / room)));
    buckets.forEach((bucket, index) => {
      if (index % every) return;
      root.append(svg("text", { x: LEFT + index * slot, y: top - GAP + 16, class: "tick", "text-anchor": "middle" }, clockText(bucket.from, size)));
    });
    frame.replaceChildren(root);
    choose(chosen !== null && chosen < buckets.length ? chosen : null);
  }

  frame.addEventListener("pointerleave", () => choose(null));
  frame.addEventListener("blur", () => choose(null));
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined || !buckets.length) return;
    event.preventDefault();
    const from = chosen ?? (step > 0 ? -1 : buckets.length);
    choose(Math.min(buckets.length - 1, Math.max(0, from + step)));
  });
  new ResizeObserver(draw).observe(frame);

  return {
    node,
    show(next) {
      buckets = next;
      draw();
      say();
    },
  };
}
