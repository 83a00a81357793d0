// All containers of the account, with their sizes and expirations.

import * as api from "../api.js";
import { createDatabase } from "../catalog-dialogs.js";
import { clock } from "../clock.js";
import { button, card, factList, fill, h, table } from "../elements.js";
import { bytes, countdown, number } from "../formats.js";
import { empty, failure, loading } from "../placeholders.js";
import { link } from "../routes.js";
import { ttlChip } from "../ttl-setting.js";

const REFRESH_INTERVAL = 5_000; // milliseconds
const COLUMNS = ["Container", "Time to Live", ["Items", "num"], ["Size", "num"], ["Expiring", "num"], ["Next expiry", "num"], ["Pending purge", "num"]];

export class OverviewView {
  #aborter = new AbortController();
  #body;
  #containers = h("div", { class: "stack" });
  #page = [h("h1", {}, "Overview"), this.#containers, connectionCard()];
  #timer = 0;
  #shownError = "";

  constructor(body) {
    this.#body = body;
    fill(body, loading());
    const { signal } = this.#aborter;
    document.addEventListener("catalog", () => this.#load(), { signal });
    clock.addEventListener("jump", () => this.#load(), { signal });
    this.#load();
  }

  dispose() {
    clearTimeout(this.#timer);
    this.#aborter.abort();
  }

  async #load() {
    const { signal } = this.#aborter;
    clearTimeout(this.#timer);
    try {
      const [databases, metrics] = await Promise.all([api.listDatabases(signal), readMetrics(signal)]);
      this.#draw(databases, metrics);
      this.#shownError = "";
    } catch (error) {
      if (error.name === "AbortError") return;
      if (this.#shownError !== error.message) fill(this.#body, failure(error, () => this.#load()));
      this.#shownError = error.message;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), REFRESH_INTERVAL); // after a failure, too: the server may be back
  }

  #draw(databases, metrics) {
    if (!databases.length) {
      fill(this.#body, h("h1", { class: "visually-hidden" }, "Overview"), empty("No databases", "A database holds containers, and containers hold items.",
        button("New database", createDatabase, { kind: "primary" })), connectionCard());
      return;
    }
    const focused = this.#containers.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    fill(this.#containers, metrics ? containerTable(metrics.containers) : h("p", { class: "muted" }, "Sizes and expirations require a master key."));
    if (focused) [...this.#containers.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
    if (!this.#containers.isConnected) fill(this.#body, this.#page); // otherwise focus and selection stay
  }
}

/** Null if the key may not read metrics. */
async function readMetrics(signal) {
  try {
    return await api.admin("GET", ["metrics.json"], { signal });
  } catch (error) {
    if (error instanceof api.RequestError) return null;
    throw error;
  }
}

function containerTable(containers) {
  if (!containers.length) return h("p", { class: "muted" }, "No containers yet.");
  return table(COLUMNS, containers.map(containerRow), { class: "cards-when-narrow" });
}

function containerRow(metrics) {
  const [, database, , container] = metrics.container.split("/").map(decodeURIComponent); // dbs/…/colls/…
  const nextExpiry = metrics.nextExpiry === null ? "–" : `in ${countdown(metrics.nextExpiry - clock.now())}`;
  return h("tr", {},
    h("th", { scope: "row" }, h("a", { href: link({ database, container }) }, h("span", { class: "muted" }, `${database} / `), container)),
    cell("Time to Live", ttlChip(metrics.defaultTtl), ""),
    cell("Items", number(metrics.live.items)),
    cell("Size", bytes(metrics.live.bytes)),
    cell("Expiring", number(metrics.expiring.items)),
    cell("Next expiry", nextExpiry),
    cell("Pending purge", number(metrics.pendingPurge.items)));
}

const cell = (label, content, kind = "num") => h("td", { class: kind, "data-label": label }, content);

function connectionCard() {
  const endpoint = `${location.origin}/`;
  return card("Connect an application", factList([
    ["Endpoint", h("code", {}, endpoint)],
    ["Python", h("code", {}, `CosmosClient("${endpoint}", key)`)],
    ["JavaScript", h("code", {}, `new CosmosClient({ endpoint: "${endpoint}", key })`)],
  ]));
}
