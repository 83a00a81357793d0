// Scale & Settings of a container. Each save replaces the container and keeps all other settings.

import * as api from "../api.js";
import { changeFeedCard } from "../cards/change-feed.js";
import { indexingPolicyCard } from "../cards/indexing-policy.js";
import { throughputCard } from "../cards/throughput.js";
import { TtlPolicyCard } from "../cards/ttl-policy.js";
import { ttlSafetyCard } from "../cards/ttl-safety.js";
import { deleteContainer } from "../catalog-dialogs.js";
import { button, card, factList, fill, h } from "../elements.js";
import { dateTime } from "../formats.js";
import { failure, loading } from "../placeholders.js";
import { go } from "../routes.js";

export class SettingsView {
  #aborter = new AbortController();
  #body;
  #route;
  #cards = {}; // name: {node, isChanged?}

  // Each builds a card from the settings that were read.
  #builders = {
    ttl: (settings) => new TtlPolicyCard(this.#route, settings, () => this.#reload("ttl"), this.#aborter.signal),
    safety: ({ status }) => (status ? ttlSafetyCard(this.#route, status) : { node: null }),
    throughput: ({ offer }) => (offer
      ? throughputCard(offer, "Throughput", () => this.#reload("throughput"))
      : { node: card("Throughput", h("p", { class: "muted" }, "This container shares the throughput of its database.")) }),
    indexing: ({ definition }) => indexingPolicyCard(this.#route, definition, () => this.#reload("indexing")),
    changeFeed: ({ definition }) => changeFeedCard(this.#route, definition, () => this.#reload("changeFeed")),
    facts: ({ definition }) => ({ node: factsCard(definition) }),
  };

  constructor(body, route) {
    this.#body = body;
    this.#route = route;
    fill(body, loading("Loading settings"));
    this.#load();
  }

  dispose() {
    this.#aborter.abort();
  }

  canLeave() {
    return !Object.values(this.#cards).some((each) => each.isChanged?.());
  }

  async #read() {
    const { database, container } = this.#route;
    const { signal } = this.#aborter;
    const definition = await api.readContainer(database, container, signal);
    const [status, offer] = await Promise.all([
      api.admin("GET", api.ttl(database, container), { signal }).catch(() => null),
      api.readOffer(definition._rid, signal),
    ]);
    return { definition, status, offer };
  }

  async #load() {
    try {
      const settings = await this.#read();
      this.#cards = Object.fromEntries(Object.entries(this.#builders).map(([name, build]) => [name, build(settings)]));
      const { ttl, safety, throughput, indexing, changeFeed, facts } = this.#cards;
      fill(this.#body, h("div", { class: "cards" },
        h("div", { class: "stack" }, ttl.node, safety.node),
        h("div", { class: "stack" }, throughput.node, indexing.node, changeFeed.node, facts.node,
          card("Delete this container", h("p", { class: "muted" }, "All its items are deleted, too."),
            h("footer", {}, button("Delete container", () => this.#delete(), { kind: "danger quiet" }))))));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Reads one card again; unsaved text in the other cards stays. */
  async #reload(name) {
    try {
      const next = this.#builders[name](await this.#read());
      this.#cards[name].node.replaceWith(next.node);
      this.#cards[name] = next;
      if (document.activeElement === document.body) { // the focus was in the card that was replaced
        next.node.tabIndex = -1;
        next.node.focus();
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  #fail(error) {
    if (error.name === "AbortError") return;
    this.#cards = {};
    fill(this.#body, failure(error, () => this.#load()));
  }

  async #delete() {
    const { database, container } = this.#route;
    if (await deleteContainer(database, container)) go({ database });
  }
}

function factsCard(definition) {
  const uniqueKeys = definition.uniqueKeyPolicy?.uniqueKeys ?? [];
  const facts = [
    ["Partition key", definition.partitionKey.paths.join(", ")],
    ["Partition key version", String(definition.partitionKey.version ?? 1)],
    ["Unique keys", uniqueKeys.map(({ paths }) => paths.join(", ")).join("; ") || "none"],
    ["Resource id", definition._rid],
    ["Last modified", dateTime(definition._ts)],
  ];
  return card("About", factList(facts.map(([name, value]) => [name, h("code", {}, value)])));
}
