// One database: its containers and its shared throughput, if it has any.

import * as api from "../api.js";
import { throughputCard } from "../cards/throughput.js";
import { createContainer, deleteDatabase } from "../catalog-dialogs.js";
import { button, fill, h, table } from "../elements.js";
import { empty, failure, loading } from "../placeholders.js";
import { go, link } from "../routes.js";
import { ttlChip } from "../ttl-setting.js";

export class DatabaseView {
  #aborter = new AbortController();
  #body;
  #database;
  #throughput = null; // its card; unsaved text in it is kept when the view is drawn again

  constructor(body, { database }) {
    this.#body = body;
    this.#database = database;
    fill(body, loading());
    document.addEventListener("catalog", () => this.#load(), { signal: this.#aborter.signal });
    this.#load();
  }

  dispose() {
    this.#aborter.abort();
  }

  canLeave() {
    return !this.#throughput?.isChanged();
  }

  async #load() {
    const { signal } = this.#aborter;
    try {
      const [response, containers] = await Promise.all([
        api.call("GET", api.database(this.#database), { signal }),
        api.listContainers(this.#database, signal),
      ]);
      this.#draw(containers, await api.readOffer(response.json._rid, signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#throughput = null;
      fill(this.#body, failure(error, () => this.#load()));
    }
  }

  #draw(containers, offer) {
    if (!offer) this.#throughput = null;
    else if (this.canLeave()) this.#throughput = throughputCard(offer, "Shared throughput", () => this.#throughputSaved());
    fill(this.#body,
      h("div", { class: "bar" },
        h("h1", {}, this.#database),
        h("div", { class: "grow" }),
        this.#newContainerButton(),
        button("Delete database", () => this.#delete(), { kind: "danger quiet" })),
      containers.length
        ? table(["Container", "Partition key", "Time to Live"], containers.map((each) => this.#row(each)), { class: "cards-when-narrow" })
        : empty("No containers yet", "A container holds items that share a partition key and a Time to Live setting.", this.#newContainerButton()),
      this.#throughput?.node);
  }

  #newContainerButton() {
    return button("New container", () => createContainer(this.#database), { kind: "primary" });
  }

  #row({ id, partitionKey, defaultTtl }) {
    return h("tr", {},
      h("th", { scope: "row" }, h("a", { href: link({ database: this.#database, container: id }) }, id)),
      h("td", { "data-label": "Partition key" }, h("code", {}, partitionKey.paths.join(", "))),
      h("td", { "data-label": "Time to Live" }, ttlChip(defaultTtl ?? null)));
  }

  async #throughputSaved() {
    this.#throughput = null;
    await this.#load();
  }

  async #delete() {
    if (await deleteDatabase(this.#database)) go({});
  }
}
