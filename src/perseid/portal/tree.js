// Databases and their containers, with the ways to make new ones.

import * as api from "./api.js";
import { button, failure, fill, h, icon, iconButton, loading } from "./dom.js";
import { newContainer, newDatabase } from "./making.js";
import { go, link } from "./routes.js";

const STORED = "perseid.open";

export function tree() {
  const list = h("div", { class: "tree-list" });
  const node = h("nav", { class: "tree", id: "tree", "aria-label": "Databases and containers" },
    h("div", { class: "tree-head" },
      h("h2", {}, "Databases"),
      iconButton("refresh", "Refresh", () => load()),
      iconButton("add", "New database", createDatabase)),
    list);
  const opened = new Set(JSON.parse(sessionStorage.getItem(STORED) ?? "[]"));
  let place = {};

  async function load() {
    if (!list.childElementCount) fill(list, loading());
    try {
      const databases = await api.listDatabases();
      if (databases.length === 1) opened.add(databases[0].id);
      const containers = await Promise.all(databases.map(({ id }) =>
        opened.has(id) ? api.listContainers(id).catch(reason) : null));
      draw(databases, containers);
    } catch (error) {
      fill(list, failure(error, load));
    }
  }

  const reason = (error) => (error.status === 404 ? [] : error); // shown in the place of the list

  function draw(databases, containers) {
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    if (!databases.length) {
      fill(list, h("div", { class: "tree-empty" }, h("p", {}, "No databases yet."), button("New database", createDatabase, { kind: "primary" })));
      return;
    }
    fill(list, h("ul", {}, databases.map(({ id }, index) => branch(id, containers[index]))));
    mark();
    if (focused) list.querySelector(`[data-place="${CSS.escape(focused)}"]`)?.focus();
  }

  function branch(id, containers) {
    const isOpen = opened.has(id);
    return h("li", {},
      h("div", { class: "tree-row" },
        h("button", {
          type: "button",
          class: `twist ${isOpen ? "open" : ""}`,
          "aria-expanded": String(isOpen),
          "aria-label": `Containers of ${id}`,
          "data-place": `twist ${id}`,
          onclick: () => toggle(id),
        }, icon("chevron")),
        h("a", { href: link({ database: id }), "data-place": id, title: id }, icon("database"), h("span", {}, id)),
        iconButton("add", `New container in ${id}`, () => createContainer(id), { class: "icon-button faint" })),
      isOpen && containers instanceof Error && h("p", { class: "tree-none" }, containers.message),
      isOpen && Array.isArray(containers) && h("ul", {},
        containers.map((each) => h("li", {},
          h("div", { class: "tree-row leaf" },
            h("a", { href: link({ database: id, container: each.id }), "data-place": `${id}/${each.id}`, title: each.id },
              icon("container"), h("span", {}, each.id))))),
        containers.length === 0 && h("li", { class: "tree-none" }, "No containers")));
  }

  function toggle(id) {
    if (!opened.delete(id)) opened.add(id);
    remember();
    load();
  }

  function remember() {
    sessionStorage.setItem(STORED, JSON.stringify([...opened]));
  }

  function mark() {
    const current = place.container ? `${place.database}/${place.container}` : place.database;
    for (const each of list.querySelectorAll("a[data-place]")) {
      if (each.dataset.place === current) each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    }
  }

  async function createDatabase() {
    const made = await newDatabase();
    if (made) go({ database: made });
  }

  async function createContainer(database) {
    const made = await newContainer(database);
    if (made) go({ database, container: made });
  }

  // Arrow keys walk through what can be reached with Tab as well.
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const links = [...list.querySelectorAll("a")];
    const at = links.indexOf(event.target.closest(".tree-row")?.querySelector("a"));
    event.preventDefault();
    links[Math.min(links.length - 1, Math.max(0, at + step))]?.focus();
  });
  document.addEventListener("catalog", () => node.isConnected && load());
  load();

  return {
    node,
    select(next) {
      place = next;
      if (place.container && !opened.has(place.database)) {
        opened.add(place.database);
        remember();
        load();
      }
      mark();
    },
  };
}
