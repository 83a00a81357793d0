// The account at a glance: every container and what lives in it.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { bytes, button, empty, failure, fill, h, loading, number } from "../dom.js";
import { countdown, span } from "../lifetime.js";
import { newDatabase } from "../making.js";
import { go, link } from "../routes.js";

const EVERY = 5_000;

export function homeView(body) {
  const aborter = new AbortController();
  const place = h("div", { class: "stack" });
  const whole = [h("h1", {}, "Overview"), place, connection()];
  let timer = 0;
  let failed = ""; // what is said in the place of it all
  fill(body, loading());

  async function load() {
    clearTimeout(timer);
    try {
      const [databases, figures] = await Promise.all([
        api.listDatabases(aborter.signal),
        api.admin("GET", ["metrics.json"], undefined, aborter.signal).catch(onlyRefusals),
      ]);
      draw(databases, figures);
      failed = "";
    } catch (error) {
      if (error.name === "AbortError") return;
      if (failed !== error.message) fill(body, failure(error, load));
      failed = error.message;
    }
    clearTimeout(timer);
    timer = setTimeout(load, EVERY); // also after a failure: the server may be back
  }

  function draw(databases, figures) {
    if (!databases.length) {
      fill(body, empty("Nothing here yet", "A database holds containers, and containers hold items.",
        button("New database", create, { kind: "primary" })), connection());
      return;
    }
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    fill(place, figures ? table(figures.containers) : h("p", { class: "muted" }, "This key may not ask for figures."));
    if (focused) [...place.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
    if (!place.isConnected) fill(body, whole); // else only the figures change: focus and selection stay
  }

  async function create() {
    const made = await newDatabase();
    if (made) go({ database: made });
  }

  const again = () => load();
  document.addEventListener("catalog", again, { signal: aborter.signal });
  clock.addEventListener("leap", again, { signal: aborter.signal });
  load();
  return {
    dispose() {
      clearTimeout(timer);
      aborter.abort();
    },
  };
}

function onlyRefusals(error) {
  if (error instanceof api.Refusal) return null;
  throw error;
}

function table(containers) {
  if (!containers.length) return h("p", { class: "muted" }, "There are databases, but no containers yet.");
  return h("div", { class: "table-wrap" }, h("table", { class: "cards-when-narrow" },
    h("thead", {}, h("tr", {}, ["Container", "Time to Live", "Items", "Size", "Will end", "Next end", "To remove"].map((name, i) =>
      h("th", { scope: "col", class: i >= 2 ? "num" : null }, name)))),
    h("tbody", {}, containers.map((each) => {
      const [, database, , container] = each.container.split("/").map(decodeURIComponent); // dbs/…/colls/…
      return h("tr", {},
        h("th", { scope: "row" }, h("a", { href: link({ database, container }) }, h("span", { class: "muted" }, `${database} / `), container)),
        cell("Time to Live", policy(each.defaultTtl), ""),
        cell("Items", number(each.live.items)),
        cell("Size", bytes(each.live.bytes)),
        cell("Will end", number(each.mortal.items)),
        cell("Next end", each.nextExpiry === null ? "–" : `in ${countdown(each.nextExpiry - clock.now())}`),
        cell("To remove", number(each.backlog.items)));
    }))));
}

const cell = (label, content, kind = "num") => h("td", { class: kind, "data-label": label }, content);

export function policy(defaultTtl) {
  if (defaultTtl === null) return h("span", { class: "chip" }, "Off");
  if (defaultTtl === -1) return h("span", { class: "chip on" }, "On (no default)");
  return h("span", { class: "chip on", title: `${number(defaultTtl)} seconds` }, span(defaultTtl));
}

function connection() {
  return h("section", { class: "card" },
    h("h2", {}, "Connect an application"),
    h("dl", { class: "facts" },
      h("dt", {}, "Endpoint"), h("dd", {}, h("code", {}, `${location.origin}/`)),
      h("dt", {}, "Python"), h("dd", {}, h("code", {}, `CosmosClient("${location.origin}/", key)`)),
      h("dt", {}, "JavaScript"), h("dd", {}, h("code", {}, `new CosmosClient({ endpoint: "${location.origin}/", key })`))));
}
