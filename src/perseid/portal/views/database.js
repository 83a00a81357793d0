// One database: its containers and, if it has any, its shared throughput.

import * as api from "../api.js";
import { button, empty, failure, fill, h, loading } from "../dom.js";
import { deleteDatabase, newContainer } from "../making.js";
import { go, link } from "../routes.js";
import { throughputCard } from "./settings.js";
import { policy } from "./home.js";

export function databaseView(body, { database }) {
  const aborter = new AbortController();
  let shared = null; // the card of the throughput; what is typed in it outlives other changes
  fill(body, loading());

  async function load() {
    try {
      const [found, containers] = await Promise.all([
        api.call("GET", api.database(database), { signal: aborter.signal }),
        api.listContainers(database, aborter.signal),
      ]);
      const offer = await api.readOffer(found.json._rid, aborter.signal);
      draw(containers, offer);
    } catch (error) {
      if (error.name === "AbortError") return;
      shared = null;
      fill(body, failure(error, load));
    }
  }

  function draw(containers, offer) {
    if (!offer) shared = null;
    else if (!shared?.isChanged()) shared = throughputCard(offer, "Shared throughput", saved);
    fill(body,
      h("div", { class: "bar" },
        h("h1", {}, database),
        h("div", { class: "grow" }),
        button("New container", create, { kind: "primary" }),
        button("Delete database", remove, { kind: "danger quiet" })),
      containers.length
        ? h("div", { class: "table-wrap" }, h("table", { class: "cards-when-narrow" },
          h("thead", {}, h("tr", {}, ["Container", "Partition key", "Time to Live"].map((name) => h("th", { scope: "col" }, name)))),
          h("tbody", {}, containers.map((each) => h("tr", {},
            h("th", { scope: "row" }, h("a", { href: link({ database, container: each.id }) }, each.id)),
            h("td", { "data-label": "Partition key" }, h("code", {}, each.partitionKey.paths.join(", "))),
            h("td", { "data-label": "Time to Live" }, policy(each.defaultTtl ?? null)))))))
        : empty("No containers yet", "A container holds items that share a partition key and a Time to Live setting.", button("New container", create, { kind: "primary" })),
      shared?.node);
  }

  async function saved() {
    shared = null;
    await load();
  }

  async function create() {
    const made = await newContainer(database);
    if (made) go({ database, container: made });
  }

  async function remove() {
    if (await deleteDatabase(database)) go({});
  }

  document.addEventListener("catalog", load, { signal: aborter.signal });
  load();
  return { dispose: () => aborter.abort(), canLeave: () => !shared?.isChanged() };
}
