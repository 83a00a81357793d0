// Elements of the page: HTML and SVG nodes, controls, forms, tables and lists of figures.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled"]);

/** An HTML element; props are attributes, `on…` listeners, or properties of the node. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === false) continue;
    if (PROPERTIES.has(name) && value !== null && value !== undefined) node[name] = value;
    else setAttribute(node, name, value === true ? "" : value);
  }
  append(node, children);
  return node;
}

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(props)) setAttribute(node, name, value);
  append(node, children);
  return node;
}

function setAttribute(node, name, value) {
  if (value === null || value === undefined) return;
  if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
  else node.setAttribute(name, value);
}

function append(node, children) {
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

/** Replaces the children of a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}

let lastId = 0;
export const newId = (prefix) => `${prefix}-${++lastId}`;

// Controls

/** A control with a label. `hint` is shown below it and read aloud with it. */
export function field(label, control, hint) {
  control.id ||= newId("field");
  const help = hint ? h("p", { class: "hint", id: `${control.id}-hint` }, hint) : null;
  if (help) control.setAttribute("aria-describedby", help.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, help);
}

/** A text input for identifiers and paths: without spelling and completion. */
export function textInput(props = {}) {
  return h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...props });
}

export function button(label, onclick, { kind = "", type = "button", ...rest } = {}) {
  return h("button", { type, class: `button ${kind}`, onclick, ...rest }, label);
}

export const submitButton = (label, props = {}) => button(label, null, { kind: "primary", type: "submit", ...props });

/** A button that shows only an icon; the label is its tooltip and its accessible name. */
export function iconButton(name, label, onclick, rest = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, onclick, ...rest }, icon(name));
}

const ICONS = {
  add: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  refresh: "M13 8a5 5 0 1 1-1.500-3.600M13 2.500V5h-2.500",
  menu: "M2.500 4.500h11M2.500 8h11M2.500 11.500h11",
  back: "M9.500 3.500 5 8l4.500 4.500",
  chevron: "M6 4l4 4-4 4",
  database: "M3 4c0-1 2.200-1.800 5-1.800S13 3 13 4s-2.200 1.800-5 1.800S3 5 3 4zM3 4v8c0 1 2.200 1.800 5 1.800s5-.8 5-1.800V4M3 8c0 1 2.200 1.800 5 1.800S13 9 13 8",
  container: "M2.500 5 8 2.200 13.500 5v6L8 13.800 2.500 11zM2.500 5 8 7.800 13.500 5M8 7.800v6",
  clock: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.800V8l2.200 1.600",
  signOut: "M9.500 3H3.500v10h6M7 8h7M11.500 5.500 14 8l-2.500 2.500",
  freeze: "M8 2v12M2.800 5l10.400 6M13.200 5 2.800 11",
  help: "M5.800 6a2.200 2.200 0 1 1 3.300 1.900C8.300 8.400 8 8.800 8 9.600M8 12.200v.1",
  play: "M5 3.500 12.500 8 5 12.500z",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" },
    svg("path", { d: ICONS[name], fill: "none", stroke: "currentColor", "stroke-width": "1.4", "stroke-linecap": "round", "stroke-linejoin": "round" }));
}

// Forms

/** Shows an error to the user: {node, show(text), hide()}. */
export function errorBox() {
  const node = h("div", { class: "problem", role: "alert", hidden: true });
  return {
    node,
    show(text) {
      node.textContent = text;
      node.hidden = !text;
    },
    hide() {
      node.hidden = true;
    },
  };
}

/** A form that `submit` handles without leaving the page; an error is shown in the form. */
export function form(submit, ...children) {
  const error = errorBox();
  const node = h("form", { class: "form" }, ...children);
  node.insertBefore(error.node, node.querySelector(":scope > footer"));
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.hide();
    const submitter = node.querySelector("[type=submit]");
    const focused = document.activeElement;
    submitter.disabled = true; // a disabled button loses the focus
    try {
      await submit();
    } catch (failed) {
      error.show(failed.message);
      error.node.scrollIntoView({ block: "nearest" });
    } finally {
      submitter.disabled = node.isUnchanged?.() ?? false;
      if (node.isConnected && document.activeElement === document.body) focused.focus();
    }
  });
  return node;
}

/** Enables the submit button of a form only while `isChanged()`; returns the form. */
export function savesChanges(node, isChanged) {
  const update = () => (node.querySelector("[type=submit]").disabled = !isChanged());
  node.isUnchanged = () => !isChanged();
  node.addEventListener("input", update);
  node.addEventListener("change", update);
  node.addEventListener("click", update); // of a button that resets the form
  update();
  return node;
}

// Tables, cards and lists

/** A table that scrolls by itself. A column is a name or [name, class]; `body` is a tbody or its rows. */
export function table(columns, body, { wrapper = "", caption = null, ...rest } = {}) {
  const heads = columns.map((column) => {
    if (column instanceof Node) return column;
    const [name, kind] = [column].flat();
    return h("th", { scope: "col", class: kind ?? null }, name);
  });
  const node = h("div", { class: `table-wrap ${wrapper}` }, h("table", rest,
    caption && h("caption", {}, caption),
    h("thead", {}, h("tr", {}, heads)),
    body instanceof Node ? body : h("tbody", {}, body)));
  // The keyboard scrolls a table only from inside it: without a link or button it needs the focus itself.
  if (node.querySelector("td") && !node.querySelector("a, button, input")) {
    for (const [name, value] of Object.entries({ tabindex: "0", role: "group", "aria-label": caption ?? "Table" })) node.setAttribute(name, value);
  }
  return node;
}

export function card(title, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title), ...content);
}

/** A list of [name, value] pairs. */
export function factList(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** One number of a list of figures, with an optional smaller text after it. */
export function figure(name, value, { detail = "", kind = "" } = {}) {
  return h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value, detail && h("small", {}, ` ${detail}`)));
}
