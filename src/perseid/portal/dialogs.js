// Dialogs, confirmations and short messages over the page.

import { button, field, form, h, iconButton, newId, textInput } from "./elements.js";

const MESSAGE_TIME = 5_000; // milliseconds
const MESSAGE_TIME_WITH_ACTION = 12_000;

/**
 * A message below the page, which becomes shorter meanwhile, so that the message covers nothing.
 * It disappears after some seconds, but not while it has the pointer or the focus.
 * `action` is {label, run}.
 */
export function toast(text, { kind = "", action = null } = {}) {
  const node = h("div", { class: `toast ${kind}`, onkeydown: (event) => event.key === "Escape" && node.remove() }, h("span", {}, text));
  if (action) {
    node.append(button(action.label, () => {
      node.remove();
      action.run();
    }, { kind: "link" }));
  }
  node.append(iconButton("close", "Dismiss", () => node.remove()));
  document.getElementById("toasts").append(node);
  let timer = 0;
  const restart = () => {
    clearTimeout(timer);
    timer = setTimeout(() => node.remove(), action ? MESSAGE_TIME_WITH_ACTION : MESSAGE_TIME);
  };
  for (const name of ["pointerenter", "focusin"]) node.addEventListener(name, () => clearTimeout(timer));
  for (const name of ["pointerleave", "focusout"]) node.addEventListener(name, restart);
  restart();
}

export const errorToast = (error) => toast(error.message, { kind: "bad" });

/**
 * A modal dialog. `build(close)` returns its content. The promise resolves to the argument of
 * `close`, or to undefined after Esc. The browser returns the focus to where it was.
 */
export function dialog(title, build, { isWide = false } = {}) {
  return new Promise((resolve) => {
    let result;
    const id = newId("dialog");
    const close = (value) => {
      result = value;
      node.close();
    };
    const node = h("dialog", { class: isWide ? "wide" : "", "aria-labelledby": id });
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

/** Asks for a confirmation. `typed` is a text that the user has to type first, if any. */
export function confirm(title, text, { yes = "Delete", typed = null, kind = "danger" } = {}) {
  return dialog(title, (close) => {
    const input = textInput({ autofocus: true });
    const accept = button(yes, null, { kind, type: "submit", autofocus: !typed, disabled: Boolean(typed) });
    input.addEventListener("input", () => (accept.disabled = input.value !== typed));
    return form(() => close(true),
      h("div", {}, text),
      typed && field(["Type ", h("b", {}, typed), " to confirm"], input),
      h("footer", {}, button("Cancel", () => close(false)), accept));
  });
}
