// Elements, dialogs and messages: the few pieces every view is made of.

import { link } from "./routes.js";

/** An element; props are attributes, `on…` listeners, or properties of the node. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  apply(node, props);
  append(node, children);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  append(node, children);
  return node;
}

function apply(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
}

function append(node, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

let counter = 0;
export const newId = (prefix) => `${prefix}-${++counter}`;

/** A labelled control. `hint` stands below it and is read with it. */
export function field(label, control, hint) {
  control.id ||= newId("field");
  const help = hint ? h("p", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (help) control.setAttribute("aria-describedby", help.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, help);
}

export function button(label, onclick, { kind = "", type = "button", ...rest } = {}) {
  return h("button", { type, class: `button ${kind}`, onclick, ...rest }, label);
}

/** A small round button that is only a sign; the label is for tooltips and readers. */
export function iconButton(name, label, onclick, rest = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...rest }, icon(name));
}

const ICONS = {
  add: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  trash: "M3 4.500h10M6.500 4.500V3h3v1.500M4.500 4.500l.6 8.500h5.800l.6-8.500M6.800 7v4M9.200 7v4",
  refresh: "M13 8a5 5 0 1 1-1.500-3.600M13 2.500V5h-2.500",
  menu: "M2.500 4.500h11M2.500 8h11M2.500 11.500h11",
  back: "M9.500 3.500 5 8l4.500 4.500",
  chevron: "M6 4l4 4-4 4",
  database: "M3 4c0-1 2.200-1.800 5-1.800S13 3 13 4s-2.200 1.800-5 1.800S3 5 3 4zM3 4v8c0 1 2.200 1.800 5 1.800s5-.8 5-1.800V4M3 8c0 1 2.200 1.800 5 1.800S13 9 13 8",
  container: "M2.500 5 8 2.200 13.500 5v6L8 13.800 2.500 11zM2.500 5 8 7.800 13.500 5M8 7.800v6",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.800V8l2.200 1.600",
  out: "M9.500 3H3.500v10h6M7 8h7M11.500 5.500 14 8l-2.500 2.500",
  snow: "M8 2v12M2.800 5l10.400 6M13.200 5 2.800 11",
  play: "M5 3.500 12.500 8 5 12.500z",
  pause: "M5.500 3.500v9M10.500 3.500v9",
  home: "M2.500 8 8 3l5.500 5M4 7v6h8V7",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    svg("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": "1.4", "stroke-linecap": "round", "stroke-linejoin": "round" }));
}

/** A message for a moment; `action` is {label, run}. */
export function toast(text, { kind = "", action = null } = {}) {
  const node = h("div", { class: `toast ${kind}` }, h("span", {}, text));
  if (action) {
    node.append(button(action.label, () => {
      node.remove();
      action.run();
    }, { kind: "link" }));
  }
  node.append(iconButton("close", "Dismiss", () => node.remove()));
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), action ? 12_000 : 5_000);
}

/**
 * A modal dialog. `build(close)` returns its content; the promise has what `close` was called
 * with, or undefined after Esc. Focus goes back to where it was.
 */
export function dialog(title, build, { wide = false } = {}) {
  return new Promise((resolve) => {
    let result;
    const id = newId("dialog");
    const close = (value) => {
      result = value;
      node.close();
    };
    const node = h("dialog", { class: wide ? "wide" : "", "aria-labelledby": id });
    node.append(
      h("header", {}, h("h2", { id }, title), iconButton("close", "Close", () => close())),
      h("div", { class: "dialog-body" }, build(close)),
    );
    node.addEventListener("close", () => {
      node.remove();
      resolve(result);
    });
    node.addEventListener("pointerdown", (event) => {
      if (event.target === node) close();
    });
    document.body.append(node);
    node.showModal();
    node.querySelector("[autofocus]")?.focus();
  });
}

/** Asks before something that cannot be taken back. `type` is what has to be typed, if anything. */
export function confirm(title, text, { yes = "Delete", type = null, kind = "danger" } = {}) {
  return dialog(title, (close) => {
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", autofocus: true });
    const go = button(yes, null, { kind, type: "submit", autofocus: !type });
    if (type) {
      go.disabled = true;
      input.addEventListener("input", () => (go.disabled = input.value !== type));
    }
    return form(() => close(true),
      h("div", {}, text),
      type && field(["Type ", h("b", {}, type), " to confirm"], input),
      h("footer", {}, button("Cancel", () => close(false)), go));
  });
}

/** A form whose submission stays on the page; a failure is shown in it. */
export function form(submit, ...children) {
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const node = h("form", { class: "form" }, ...children);
  node.insertBefore(problem, node.querySelector(":scope > footer"));
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    const go = node.querySelector("[type=submit]");
    const hadFocus = document.activeElement;
    go.disabled = true; // takes the focus from it
    try {
      await submit();
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      go.disabled = false;
      if (node.isConnected && document.activeElement === document.body) hadFocus.focus();
    }
  });
  return node;
}

export function empty(title, text, ...actions) {
  return h("div", { class: "empty" }, h("h2", {}, title), h("p", {}, text), h("div", { class: "row" }, actions));
}

export function failure(error, retry) {
  if (error.status === 404) return missing(retry);
  return h("div", { class: "empty failed", role: "alert" },
    h("h2", {}, "That did not work"),
    h("p", {}, error.message),
    retry && h("div", { class: "row" }, button("Try again", retry)));
}

function missing(retry) {
  return h("div", { class: "empty failed", role: "alert" },
    h("h2", {}, "There is nothing at this address"),
    h("p", {}, "It may have been deleted."),
    h("div", { class: "row" }, button("Try again", retry), h("a", { class: "button", href: link({}) }, "To the overview")));
}

export function loading(what = "Loading") {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "sweep", "aria-hidden": "true" }), `${what} …`);
}

// Figures

export const number = (n) => n.toLocaleString("en");

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  for (const unit of ["KB", "MB", "GB"]) {
    n /= 1024;
    if (n < 1024 || unit === "GB") return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`;
  }
}

export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

/** A moment of the server's clock, to the second, in the reader's own zone. */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
