// What a view shows while it has no content: loading, empty, failed.

import { button, h } from "./elements.js";
import { link } from "./routes.js";

export function loading(text = "Loading") {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "progress", "aria-hidden": "true" }), `${text} …`);
}

export function empty(title, text, ...actions) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, text), h("div", { class: "row" }, actions));
}

export function failure(error, retry) {
  const isMissing = error.status === 404;
  return h("div", { class: "empty failed", role: "alert" },
    h("h2", {}, isMissing ? "Not found" : "Request failed"),
    h("p", {}, isMissing ? "It does not exist, or it was deleted." : error.message),
    h("div", { class: "row" },
      button("Try again", retry),
      isMissing && h("a", { class: "button", href: link({}) }, "Go to the overview")));
}
