// Who ends when, and how the removal of the dead keeps up; live.

import * as api from "../api.js";
import { timeBars } from "../chart.js";
import { clock } from "../clock.js";
import { bytes, button, failure, fill, h, loading, moment, number, plural, toast } from "../dom.js";
import { countdown, span } from "../lifetime.js";
import { link } from "../routes.js";

const EVERY = 2_000;
const WINDOW = 30_000; // milliseconds over which the rate of removal is measured
const BUCKETS = { second: 60, minute: 60, hour: 24, day: 30, week: 26, year: 10 };
const WIDTHS = { second: 1, minute: 60, hour: 3_600, day: 86_400, week: 604_800, year: 31_536_000 };

export function lifetimesView(body, { database, container }) {
  const aborter = new AbortController();
  const { signal } = aborter;
  const bucket = h("select", { "aria-label": "Width of a bar" }, Object.keys(BUCKETS).map((name) => h("option", { value: name }, `by ${name}`)));
  const live = h("input", { type: "checkbox", checked: true });
  const figures = h("dl", { class: "figures tiles" });
  const chart = timeBars("Items and bytes that end", [
    { key: "items", label: "Items", format: (n) => plural(n, "item"), short: number, height: 150 },
    { key: "bytes", label: "Bytes", format: bytes, short: bytes, height: 80 },
  ]);
  const outside = h("p", { class: "muted" });
  const rows = h("tbody");
  const sweeper = h("div", { class: "row wrap" });
  const none = h("p", { class: "note", hidden: true });
  const forecasts = h("div", { class: "stack" }, chart.node, outside,
    h("details", {}, h("summary", {}, "As a table"),
      h("div", { class: "table-wrap" }, h("table", {}, h("thead", {}, h("tr", {}, ["From", "Items", "Bytes"].map((name, i) => h("th", { scope: "col", class: i ? "num" : null }, name)))), rows))));
  const view = h("div", { class: "cards one" },
    figures,
    h("section", { class: "card" },
      h("div", { class: "bar" }, h("h2", {}, "Forecast"), h("div", { class: "grow" }), bucket,
        h("label", { class: "check" }, live, "Live")),
      none, forecasts),
    h("section", { class: "card" }, h("h2", {}, "Removal"), sweeper));
  fill(body, loading("Counting"));

  let failed = ""; // what is said in the place of it all
  let status = null;
  let hasChosen = false;
  let timer = 0;
  const readings = []; // {at, purged}, for the rate

  async function load() {
    clearTimeout(timer);
    try {
      const [found, sweeping] = await Promise.all([
        api.admin("GET", api.ttl(database, container), undefined, signal),
        api.admin("GET", ["sweeper"], undefined, signal),
      ]);
      if (!hasChosen) bucket.value = fitting(found);
      const forecast = await api.admin("GET", api.ttl(database, container, "forecast"), undefined, signal, {
        search: `?bucket=${bucket.value}&count=${BUCKETS[bucket.value]}`,
      });
      status = found;
      draw(forecast, sweeping);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (failed !== error.message || view.isConnected) fill(body, failure(error, load));
      failed = error.message;
      if (!(error instanceof api.Unreachable)) return; // else the server may be back any moment
    }
    clearTimeout(timer);
    if (live.checked) timer = setTimeout(load, document.hidden ? 5 * EVERY : EVERY);
  }

  /** The narrowest bars that still show the next end and give it some company. */
  function fitting({ defaultTtl, nextExpiry, asOf }) {
    const ahead = Math.max(defaultTtl ?? 0, nextExpiry === null ? 0 : nextExpiry - asOf);
    return Object.keys(BUCKETS).find((name) => WIDTHS[name] * BUCKETS[name] >= ahead && name !== "second") ?? "year";
  }

  function draw(forecast, sweeping) {
    if (!view.isConnected) fill(body, view);
    const purged = rate(status.purgedTotal);
    fill(figures,
      tile("Alive", status.live),
      tile("Will end", status.mortal),
      tile("Never end", status.immortal),
      tile("Waiting for removal", status.backlog, status.backlog.items ? "warn" : ""),
      h("div", {}, h("dt", {}, "Removal lags by"), h("dd", {}, status.purgeLagSeconds ? span(status.purgeLagSeconds) : "nothing")),
      h("div", {}, h("dt", {}, "Removed per second"), h("dd", {}, purged === null ? "–" : purged > 0 && purged < 10 ? purged.toFixed(1) : number(Math.round(purged)))),
      h("div", {}, h("dt", {}, "Removed so far"), h("dd", {}, number(status.purgedTotal), h("small", {}, ` ${bytes(status.purgedBytes)}`))),
      h("div", {}, h("dt", {}, "Next end"), h("dd", { class: "next" })));
    tick();
    const isOff = status.defaultTtl === null;
    none.hidden = !isOff;
    bucket.hidden = forecasts.hidden = isOff; // bars would only say the same once more
    if (isOff && !none.childElementCount) { // a link keeps its focus
      fill(none, "Time to Live is off in this container: nothing ends. ", h("a", { href: link({ database, container, tab: "settings" }) }, "Switch it on"));
    }
    chart.show(forecast.buckets);
    outside.textContent = `After that ${plural(forecast.later.items, "item")} (${bytes(forecast.later.bytes)}); `
      + `never ${plural(forecast.immortal.items, "item")} (${bytes(forecast.immortal.bytes)}).`;
    fill(rows, forecast.buckets.filter((each) => each.items).map((each) => h("tr", {},
      h("th", { scope: "row" }, moment(each.from)), h("td", { class: "num" }, number(each.items)), h("td", { class: "num" }, bytes(each.bytes)))));
    drawSweeper(sweeping, forecast.drainSeconds);
  }

  function tile(name, { items, bytes: size }, kind = "") {
    return h("div", { class: kind }, h("dt", {}, name), h("dd", {}, number(items), h("small", {}, ` ${bytes(size)}`)));
  }

  /** Items removed per second, over the last half minute. */
  function rate(purged) {
    const at = performance.now();
    readings.push({ at, purged });
    while (readings.length > 2 && readings[0].at < at - WINDOW) readings.shift();
    const [first] = readings;
    return readings.length < 2 ? null : ((purged - first.purged) * 1000) / (at - first.at);
  }

  function drawSweeper(sweeping, drainSeconds) {
    const isAlarmed = Boolean(sweeping.alarm);
    const text = isAlarmed
      ? "Paused: the system's clock leapt ahead. Reads follow it all the same."
      : sweeping.paused ? "Paused. Items end on time; their remains stay on disk." : `Running, with ${Math.round(sweeping.pace * 100)} % of the time while requests arrive.`;
    const about = drainSeconds && status.backlog.items ? ` About ${span(Math.max(1, drainSeconds))} to go.` : "";
    const wanted = JSON.stringify([text, about, sweeping.paused, isAlarmed]);
    if (sweeper.dataset.shown === wanted) return; // buttons keep their focus
    sweeper.dataset.shown = wanted;
    fill(sweeper, h("p", {}, text, about), h("div", { class: "grow" }),
      isAlarmed && button("The leap was meant", () => act(["sweeper", "confirm-clock"]), { kind: "primary" }),
      sweeping.paused
        ? button("Resume", () => act(["sweeper", "resume"]))
        : button("Pause", () => act(["sweeper", "pause"])),
      button("Remove the dead now", async () => {
        const done = await act(api.ttl(database, container, "drain"));
        if (done) toast(`${plural(done.purged, "item")} removed`);
      }));
  }

  async function act(path) {
    try {
      const done = await api.admin("POST", path);
      load();
      return done;
    } catch (error) {
      toast(error.message, { kind: "bad" });
      return null;
    }
  }

  function tick() {
    const place = figures.querySelector(".next");
    if (!place || !status) return;
    const next = status.nextExpiry;
    place.textContent = next === null ? "–" : next > clock.now() ? `in ${countdown(next - clock.now())}` : "now";
  }

  bucket.addEventListener("change", () => {
    hasChosen = true;
    load();
  });
  live.addEventListener("change", load);
  clock.addEventListener("tick", tick, { signal });
  clock.addEventListener("leap", load, { signal });
  load();
  return {
    dispose() {
      clearTimeout(timer);
      aborter.abort();
    },
  };
}
