// A text area with coloured text behind it. Everything a text area can do it still does: undo,
// Tab to leave, spell-free typing, the system's own selection.

import { h, newId } from "./dom.js";

const LARGEST_COLOURED = 200_000; // characters; beyond that colours would slow the typing

/** {node, area, value, mark(start, end)}; `spans` colours a text. */
export function codeBox(spans, { label, value = "", rows = 12, readonly = false, describedby = null } = {}) {
  const backdrop = h("pre", { class: "code-back", "aria-hidden": "true" });
  const area = h("textarea", {
    class: "code-text",
    "aria-label": label,
    "aria-describedby": describedby,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    wrap: "off",
    rows,
    id: newId("code"),
    readonly,
    value,
  });
  const node = h("div", { class: "code" }, backdrop, area);
  const paint = () => {
    const text = area.value;
    if (text.length > LARGEST_COLOURED) {
      node.classList.add("plain");
      backdrop.replaceChildren();
      return;
    }
    node.classList.remove("plain");
    const fragment = document.createDocumentFragment();
    for (const [kind, part] of spans(text)) {
      fragment.append(kind ? h("span", { class: `c-${kind}` }, part) : part);
    }
    fragment.append("\n ");
    backdrop.replaceChildren(fragment);
    follow();
  };
  const follow = () => {
    backdrop.scrollTop = area.scrollTop;
    backdrop.scrollLeft = area.scrollLeft;
  };
  area.addEventListener("input", paint);
  area.addEventListener("scroll", follow);
  paint();
  return {
    node,
    area,
    get value() {
      return area.value;
    },
    set value(text) {
      area.value = text;
      paint();
    },
    /** Puts the selection on a place, so that it is seen and can be typed over. */
    mark(start, end) {
      area.focus();
      area.setSelectionRange(start, Math.max(end, start + 1));
    },
  };
}

/** Coloured text that is only for reading. */
export function codeShown(spans, text, label) {
  const node = h("pre", { class: "code-shown", tabindex: "0", "aria-label": label });
  if (text.length > LARGEST_COLOURED) node.textContent = text;
  else for (const [kind, part] of spans(text)) node.append(kind ? h("span", { class: `c-${kind}` }, part) : part);
  return node;
}
