// The keyboard shortcuts of the portal: their list, and the dialog that shows it.

import { dialog } from "./dialogs.js";
import { h } from "./elements.js";
import { shortcuts as QUERY_SHORTCUTS } from "./views/query.js";

// [title, [[keys, effect], …]]; the query page has its own list.
const SHORTCUTS = [
  ["Everywhere", [
    ["?", "Show this list"],
    ["Esc", "Close a dialog, a menu or a message"],
    ["↑ ↓", "Move through the databases and containers"],
  ]],
  ["Items", [
    ["/", "Go to the filter"],
    ["Enter", "Apply the WHERE clause that is typed"],
    ["Shift + click", "Select all rows up to this one"],
    ["Ctrl + S", "Save the open item"],
  ]],
  ["Query", QUERY_SHORTCUTS],
  ["Lifetimes", [
    ["← →", "Move through the bars of the chart"],
  ]],
];

export function showShortcuts() {
  return dialog("Keyboard shortcuts", () => h("div", { class: "shortcuts" }, SHORTCUTS.map(([title, lines]) => [
    h("h3", {}, title),
    h("dl", {}, lines.map(([keys, effect]) => [h("dt", {}, keys.split(/( \+ | or )/).map((part, i) => (i % 2 ? part : h("kbd", {}, part)))), h("dd", {}, effect)])),
  ])));
}

const isTyping = ({ target }) => target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]") !== null;

/** Handles keys that are no text: a field that is being typed in gets its characters. */
export function onShortcut(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event)) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "?") {
    event.preventDefault();
    showShortcuts();
  } else if (event.key === "/") {
    const filter = document.querySelector("[data-shortcut='/']");
    if (!filter?.checkVisibility()) return;
    event.preventDefault();
    filter.focus();
  }
}
