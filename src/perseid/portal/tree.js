// The navigation tree of databases and their containers.

import * as api from "./api.js";
import { createContainer, createDatabase } from "./catalog-dialogs.js";
import { button, fill, h, icon, iconButton } from "./elements.js";
import { failure, loading } from "./placeholders.js";
import { link } from "./routes.js";

const STORED_EXPANDED = "perseid.open"; // in session storage

export class Tree {
  #list = h("div", { class: "tree-list", onkeydown: (event) => this.#onKey(event) });
  #expanded = new Set(JSON.parse(sessionStorage.getItem(STORED_EXPANDED) ?? "[]"));
  #route = {};

  constructor() {
    this.node = h("nav", { class: "tree", id: "tree", "aria-label": "Databases and containers" },
      h("div", { class: "tree-head" },
        h("h2", {}, "Databases"),
        iconButton("refresh", "Refresh", () => this.#load()),
        iconButton("add", "New database", createDatabase)),
      this.#list);
    document.addEventListener("catalog", () => this.node.isConnected && this.#load());
    this.#load();
  }

  /** Marks the database or container of a route. */
  select(route) {
    this.#route = route;
    if (route.container && !this.#expanded.has(route.database)) {
      this.#expanded.add(route.database);
      this.#storeExpanded();
      this.#load();
    }
    this.#markCurrent();
  }

  async #load() {
    if (!this.#list.childElementCount) fill(this.#list, loading());
    try {
      const databases = await api.listDatabases();
      if (databases.length === 1) this.#expanded.add(databases[0].id);
      const containers = await Promise.all(databases.map(({ id }) => (this.#expanded.has(id) ? containersOrError(id) : null)));
      this.#draw(databases, containers);
    } catch (error) {
      fill(this.#list, failure(error, () => this.#load()));
    }
  }

  #draw(databases, containers) {
    const focused = this.#list.contains(document.activeElement) ? document.activeElement.dataset.path : null;
    if (!databases.length) {
      fill(this.#list, h("div", { class: "tree-empty" }, h("p", {}, "No databases yet."), button("New database", createDatabase, { kind: "primary" })));
      return;
    }
    fill(this.#list, h("ul", {}, databases.map(({ id }, index) => this.#branch(id, containers[index]))));
    this.#markCurrent();
    if (focused) this.#list.querySelector(`[data-path="${CSS.escape(focused)}"]`)?.focus();
  }

  #branch(id, containers) {
    const isExpanded = this.#expanded.has(id);
    return h("li", {},
      h("div", { class: "tree-row" },
        h("button", {
          type: "button",
          class: `toggle ${isExpanded ? "open" : ""}`,
          "aria-expanded": String(isExpanded),
          "aria-label": `Containers of ${id}`,
          "data-path": `toggle ${id}`,
          onclick: () => this.#toggle(id),
        }, icon("chevron")),
        h("a", { href: link({ database: id }), "data-path": id, title: id }, icon("database"), h("span", {}, id)),
        iconButton("add", `New container in ${id}`, () => createContainer(id), { class: "icon-button on-hover" })),
      isExpanded && containers instanceof Error && h("p", { class: "tree-note" }, containers.message),
      isExpanded && Array.isArray(containers) && h("ul", {},
        containers.map((each) => leaf(id, each.id)),
        containers.length === 0 && h("li", { class: "tree-note" }, "No containers")));
  }

  #toggle(id) {
    if (!this.#expanded.delete(id)) this.#expanded.add(id);
    this.#storeExpanded();
    this.#load();
  }

  #storeExpanded() {
    sessionStorage.setItem(STORED_EXPANDED, JSON.stringify([...this.#expanded]));
  }

  #markCurrent() {
    const { database, container } = this.#route;
    const current = container ? `${database}/${container}` : database;
    for (const each of this.#list.querySelectorAll("a[data-path]")) {
      if (each.dataset.path === current) each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    }
  }

  /** The arrow keys move between the links, which Tab reaches as well. */
  #onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const links = [...this.#list.querySelectorAll("a")];
    const index = links.indexOf(event.target.closest(".tree-row")?.querySelector("a"));
    event.preventDefault();
    links[Math.min(links.length - 1, Math.max(0, index + step))]?.focus();
  }
}

/** The containers of a database; an error is shown in their place. */
async function containersOrError(database) {
  try {
    return await api.listContainers(database);
  } catch (error) {
    return error.status === 404 ? [] : error;
  }
}

function leaf(database, container) {
  return h("li", {},
    h("div", { class: "tree-row leaf" },
      h("a", { href: link({ database, container }), "data-path": `${database}/${container}`, title: container },
        icon("container"), h("span", {}, container))));
}
