// The lifetimes of a container's items: a forecast of expirations and the progress of the purge, live.

import * as api from "../api.js";
import { BarChart, byteSeries, itemSeries } from "../chart.js";
import { clock } from "../clock.js";
import { errorToast, toast } from "../dialogs.js";
import { button, card, figure, fill, h, table } from "../elements.js";
import { bytes, countdown, dateTime, duration, number, plural } from "../formats.js";
import { failure, loading } from "../placeholders.js";
import { link } from "../routes.js";

const REFRESH_INTERVAL = 2_000; // milliseconds
const RATE_WINDOW = 30_000; // milliseconds over which the purge rate is measured
const BUCKETS = { second: 60, minute: 60, hour: 24, day: 30, week: 26, year: 10 };
const SECONDS = { second: 1, minute: 60, hour: 3_600, day: 86_400, week: 604_800, year: 31_536_000 };

export class LifetimesView {
  #aborter = new AbortController();
  #body;
  #route;
  #bucket = h("select", { "aria-label": "Bar width" }, Object.keys(BUCKETS).map((name) => h("option", { value: name }, `per ${name}`)));
  #autoRefresh = h("input", { type: "checkbox", checked: true });
  #figures = h("dl", { class: "figures tiles" });
  #chart = new BarChart("Items and bytes that expire", [itemSeries(150), byteSeries(80)]);
  #outside = h("p", { class: "muted" });
  #rows = h("tbody");
  #purge = h("div", { class: "row wrap" });
  #offNote = h("p", { class: "note", hidden: true });
  #forecast = h("div", { class: "stack" }, this.#chart.node, this.#outside,
    h("details", {}, h("summary", {}, "Show as a table"), table(["From", ["Items", "num"], ["Bytes", "num"]], this.#rows)));
  #page = h("div", { class: "cards one" },
    this.#figures,
    h("section", { class: "card" },
      h("div", { class: "bar" }, h("h2", {}, "Forecast"), h("div", { class: "grow" }), this.#bucket,
        h("label", { class: "check" }, this.#autoRefresh, "Auto-refresh")),
      this.#offNote, this.#forecast),
    card("Purge", this.#purge));
  #status = null;
  #isBucketChosen = false;
  #shownError = "";
  #shownPurge = "";
  #timer = 0;
  #readings = []; // {at, purged}, for the rate

  constructor(body, route) {
    this.#body = body;
    this.#route = route;
    fill(body, loading("Counting items"));
    this.#bucket.addEventListener("change", () => {
      this.#isBucketChosen = true;
      this.#load();
    });
    this.#autoRefresh.addEventListener("change", () => this.#load());
    const { signal } = this.#aborter;
    clock.addEventListener("tick", () => this.#drawNextExpiry(), { signal });
    clock.addEventListener("jump", () => this.#load(), { signal });
    this.#load();
  }

  dispose() {
    clearTimeout(this.#timer);
    this.#aborter.abort();
  }

  #path = (...rest) => api.ttl(this.#route.database, this.#route.container, ...rest);

  async #load() {
    clearTimeout(this.#timer);
    try {
      await this.#read();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (this.#shownError !== error.message || this.#page.isConnected) fill(this.#body, failure(error, () => this.#load()));
      this.#shownError = error.message;
      if (!(error instanceof api.ServerUnreachable)) return; // otherwise the server may be back soon
    }
    clearTimeout(this.#timer);
    if (this.#autoRefresh.checked) this.#timer = setTimeout(() => this.#load(), document.hidden ? 5 * REFRESH_INTERVAL : REFRESH_INTERVAL);
  }

  async #read() {
    const { signal } = this.#aborter;
    const [status, sweeper] = await Promise.all([
      api.admin("GET", this.#path(), { signal }),
      api.admin("GET", ["sweeper"], { signal }),
    ]);
    if (!this.#isBucketChosen) this.#bucket.value = defaultBucket(status);
    const bucket = this.#bucket.value;
    const search = `?bucket=${bucket}&count=${BUCKETS[bucket]}`;
    const forecast = await api.admin("GET", this.#path("forecast"), { signal, search });
    this.#status = status;
    if (!this.#page.isConnected) fill(this.#body, this.#page);
    this.#drawFigures();
    this.#drawForecast(forecast);
    this.#drawPurge(sweeper, forecast.drainSeconds);
  }

  #drawFigures() {
    const { live, expiring, nonExpiring, pendingPurge, purgeLagSeconds, purgedTotal, purgedBytes } = this.#status;
    const counted = (name, count, kind = "") => figure(name, number(count.items), { detail: bytes(count.bytes), kind });
    fill(this.#figures,
      counted("Live", live),
      counted("Expiring", expiring),
      counted("Non-expiring", nonExpiring),
      counted("Pending purge", pendingPurge, pendingPurge.items ? "warn" : ""),
      figure("Purge lag", purgeLagSeconds < 60 ? `${purgeLagSeconds} s` : duration(purgeLagSeconds)),
      figure("Purged per second", rateText(this.#purgeRate(purgedTotal))),
      figure("Purged in total", number(purgedTotal), { detail: bytes(purgedBytes) }),
      figure("Next expiry", "", { kind: "next-expiry" }));
    this.#drawNextExpiry();
  }

  #drawNextExpiry() {
    const node = this.#figures.querySelector(".next-expiry dd");
    if (!node) return;
    const { nextExpiry } = this.#status;
    const seconds = nextExpiry - clock.now();
    node.textContent = nextExpiry === null ? "–" : seconds > 0 ? `in ${countdown(seconds)}` : "now";
  }

  /** Items purged per second during the last half minute; null after the first reading. */
  #purgeRate(purged) {
    const at = performance.now();
    const readings = this.#readings;
    readings.push({ at, purged });
    while (readings.length > 2 && readings[0].at < at - RATE_WINDOW) readings.shift();
    return readings.length < 2 ? null : ((purged - readings[0].purged) * 1000) / (at - readings[0].at);
  }

  #drawForecast({ buckets, later, nonExpiring }) {
    const isOff = this.#status.defaultTtl === null;
    this.#offNote.hidden = !isOff;
    this.#bucket.hidden = this.#forecast.hidden = isOff;
    if (isOff && !this.#offNote.childElementCount) { // the link keeps its focus
      fill(this.#offNote, "Time to Live is off in this container, so items do not expire. ",
        h("a", { href: link({ ...this.#route, tab: "settings", rest: [] }) }, "Turn it on"));
    }
    this.#chart.show(buckets);
    const counted = (count) => `${plural(count.items, "item")} (${bytes(count.bytes)})`;
    this.#outside.textContent = `Later: ${counted(later)}. Non-expiring: ${counted(nonExpiring)}.`;
    fill(this.#rows, buckets.filter((bucket) => bucket.items).map((bucket) => h("tr", {},
      h("th", { scope: "row" }, dateTime(bucket.from)),
      h("td", { class: "num" }, number(bucket.items)),
      h("td", { class: "num" }, bytes(bucket.bytes)))));
  }

  #drawPurge({ alarm, paused, pace }, drainSeconds) {
    const remaining = drainSeconds && this.#status.pendingPurge.items ? ` About ${duration(Math.max(1, drainSeconds))} remaining.` : "";
    const text = purgeText(alarm, paused, pace) + remaining;
    const shown = JSON.stringify([text, paused, Boolean(alarm)]);
    if (this.#shownPurge === shown) return; // the buttons keep their focus
    this.#shownPurge = shown;
    fill(this.#purge, h("p", {}, text), h("div", { class: "grow" }),
      alarm && button("Confirm clock change", () => this.#post(["sweeper", "confirm-clock"]), { kind: "primary" }),
      alarm && button("Reject clock change", () => this.#post(["sweeper", "reject-clock"])),
      paused
        ? button("Resume", () => this.#post(["sweeper", "resume"]))
        : button("Pause", () => this.#post(["sweeper", "pause"])),
      button("Purge now", () => this.#purgeNow()));
  }

  async #purgeNow() {
    const result = await this.#post(this.#path("drain"));
    if (result) toast(`${plural(result.purged, "item")} purged`);
  }

  async #post(path) {
    try {
      const result = await api.admin("POST", path);
      this.#load();
      return result;
    } catch (error) {
      errorToast(error);
      return null;
    }
  }
}

/** The narrowest bars with which the chart includes the next expiry and the container's default. */
function defaultBucket({ defaultTtl, nextExpiry, asOf }) {
  const ahead = Math.max(defaultTtl ?? 0, nextExpiry === null ? 0 : nextExpiry - asOf);
  return Object.keys(BUCKETS).find((name) => SECONDS[name] * BUCKETS[name] >= ahead && name !== "second") ?? "year";
}

function rateText(rate) {
  if (rate === null) return "–";
  return rate > 0 && rate < 10 ? rate.toFixed(1) : number(Math.round(rate));
}

function purgeText(alarm, isPaused, pace) {
  if (alarm) return "Paused: the system clock jumped forward. Reads already use the new time.";
  if (isPaused) return "Paused. Items still expire on time, but stay on disk.";
  return `Running. It may use ${Math.round(pace * 100)} % of the time while requests arrive.`;
}
