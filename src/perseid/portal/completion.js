// Suggestions while a query is typed: properties, aliases, functions, keywords. The focus stays in
// the text area; aria-activedescendant names the selected suggestion.

import { fill, h, newId } from "./elements.js";
import { FUNCTIONS } from "./query-functions.js";
import { aliasesIn, isInText, KEYWORDS, pathBefore, stepText, tokensOf } from "./query-language.js";

const MAX_TEXT = 50_000; // characters; longer texts have no suggestions
const MAX_SHOWN = 50;
const LIST_WIDTH = 340; // pixels, as in query.css
const TYPED = /^[\p{L}\p{N}\p{Pc}.]+$/u; // what opens the list; pasted text does not

const FUNCTION_SUGGESTIONS = FUNCTIONS.map(([name, parameters, text]) => ({ name, kind: "function", detail: `(${parameters})`, text, hasParameters: parameters !== "" }));
const KEYWORD_SUGGESTIONS = KEYWORDS.map((name) => ({ name, kind: "keyword", detail: "", text: "keyword" }));

/** What may be typed at a position: {from, to, prefix, list}, or null. `paths` are PropertyPaths. */
export function suggestionsAt(text, at, paths) {
  const tokens = tokensOf(text);
  if (isInText(tokens, at)) return null;
  const current = tokens.find(({ kind, start, end }) => start < at && at <= end && kind !== "symbol");
  if (current && !/^(?:word|keyword)$/.test(current.kind)) return null; // a number or a parameter
  const from = current?.start ?? at;
  const prefix = text.slice(from, at);
  const isPath = text.slice(0, from).trimEnd().endsWith(".");
  const to = current?.end ?? at;
  const previous = tokens.findLast((token) => token.end <= from && token.kind !== "comment");
  const all = isPath ? propertiesAt(text, from, paths) : wordsAt(text.slice(0, from) + text.slice(to), previous);
  const matches = all.filter(({ name }) => name.toLowerCase().startsWith(prefix.toLowerCase()));
  return { from, to, prefix, isPath, list: matches.slice(0, MAX_SHOWN) };
}

function propertiesAt(text, from, paths) {
  const steps = pathBefore(text, from);
  if (!steps) return [];
  const { names, isArray } = paths.after(steps);
  const elements = isArray ? [{ name: "[0]", kind: "element", detail: "", text: "first element of the array" }] : [];
  return [...elements, ...names.map(([name, types]) => ({ name, kind: "property", detail: "", text: types }))];
}

/** Words that may follow a token; `text` is the query without the word that is typed. */
function wordsAt(text, previous) {
  const aliases = [...aliasesIn(text).keys()].map((name) => ({ name, kind: "alias", detail: "", text: "alias" }));
  const keyword = previous?.kind === "keyword" ? previous.text.toUpperCase() : "";
  if (["FROM", "JOIN", "AS"].includes(keyword)) return []; // a name that the user chooses
  if (keyword === "IN") return aliases;
  return [...aliases, ...KEYWORD_SUGGESTIONS, ...FUNCTION_SUGGESTIONS];
}

/** Adds suggestions to a CodeEditor. `load()` is called before the first ones, to fill `paths`. */
export class Completion {
  #editor;
  #paths;
  #load;
  #id = newId("completion");
  #listBox;
  #status = h("div", { class: "invisible", role: "status" });
  #found = null; // what suggestionsAt returned, while the list is open
  #selected = -1;
  #isInserting = false;

  constructor(editor, paths, load) {
    this.#editor = editor;
    this.#paths = paths;
    this.#load = load;
    this.#listBox = h("ul", { class: "completion", role: "listbox", id: this.#id, "aria-label": "Suggestions", tabindex: "0", hidden: true });
    this.node = h("div", { class: "completion-host" }, editor.node, this.#listBox, this.#status);
    const { area } = editor;
    area.setAttribute("aria-autocomplete", "list");
    area.setAttribute("aria-haspopup", "listbox");
    area.addEventListener("input", (event) => this.#typed(event));
    area.addEventListener("keydown", (event) => this.#onKey(event));
    area.addEventListener("blur", () => this.close());
    area.addEventListener("click", () => this.close());
    area.addEventListener("scroll", () => this.isOpen && this.#place());
  }

  get isOpen() {
    return this.#found !== null;
  }

  close() {
    this.#found = null;
    this.#listBox.hidden = true;
    this.#status.textContent = "";
    this.#editor.area.removeAttribute("aria-controls");
    this.#editor.area.removeAttribute("aria-activedescendant");
  }

  #typed(event) {
    if (this.#isInserting) return;
    const isTyped = /^insert(?:Text|CompositionText)$/.test(event.inputType) && TYPED.test(event.data ?? "");
    if (isTyped || (this.isOpen && event.inputType?.startsWith("deleteContent"))) this.#open({ isTyped: true });
    else this.close();
  }

  /** While typing, a list without a prefix is shown only after a dot, and nothing is selected that is typed already. */
  async #open({ isTyped = false } = {}) {
    const { area } = this.#editor;
    if (area.value.length > MAX_TEXT || area.selectionStart !== area.selectionEnd) return this.close();
    const found = suggestionsAt(area.value, area.selectionStart, this.#paths);
    if (found?.isPath && this.#load) {
      const load = this.#load;
      this.#load = null;
      load().then(() => {
        if (document.activeElement === area) this.#open({ isTyped });
      }, () => {});
    }
    const isComplete = found?.list.some(({ name }) => name.toLowerCase() === found.prefix.toLowerCase());
    const isUseful = found?.list.length && !(isTyped && !found.isPath && !found.prefix) && !(isComplete && found.list.length === 1);
    if (!isUseful) return this.close();
    this.#found = found;
    fill(this.#listBox, found.list.map((each, index) => this.#option(each, index)));
    this.#place();
    this.#listBox.hidden = false;
    area.setAttribute("aria-controls", this.#id);
    this.#status.textContent = `${found.list.length} suggestions`;
    this.#select(isTyped && isComplete ? -1 : 0);
  }

  #option({ name, kind, detail, text }, index) {
    return h("li", {
      role: "option",
      id: `${this.#id}-${index}`,
      "aria-selected": "false",
      onpointerdown: (event) => event.preventDefault(), // the text area keeps the focus
      onclick: () => this.#accept(index),
    }, h("span", { class: `completion-name ${kind}` }, name, detail && h("span", { class: "muted" }, detail)), h("small", {}, text));
  }

  #select(index) {
    this.#selected = index;
    [...this.#listBox.children].forEach((node, each) => node.setAttribute("aria-selected", String(each === index)));
    const node = this.#listBox.children[index];
    if (!node) return this.#editor.area.removeAttribute("aria-activedescendant");
    this.#editor.area.setAttribute("aria-activedescendant", node.id);
    node.scrollIntoView({ block: "nearest" });
  }

  #onKey(event) {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      return void this.#open();
    }
    if (!this.isOpen || event.isComposing) return;
    const count = this.#found.list.length;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key === "Escape") this.close();
    else if (event.key in steps && !event.shiftKey) this.#select(nextIndex(this.#selected, steps[event.key], count));
    else if (isAccept(event) && this.#selected >= 0) this.#accept(this.#selected);
    else return void (/^(?:Enter|Tab|Arrow|Home|End)/.test(event.key) && this.close());
    event.preventDefault();
    event.stopPropagation();
  }

  #accept(index) {
    const { from, to, list } = this.#found;
    const { area } = this.#editor;
    const { text, start, caret } = insertion(area.value, from, to, list[index]);
    this.#isInserting = true;
    area.focus();
    area.setSelectionRange(start, to);
    // The command keeps the undo history of the browser; where it is missing, the text is replaced.
    if (!document.execCommand("insertText", false, text)) {
      area.setRangeText(text, start, to, "end");
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }
    this.#isInserting = false;
    area.setSelectionRange(start + caret, start + caret);
    this.close();
  }

  /** Puts the list below the word that is typed, within the width of the editor. */
  #place() {
    const { area } = this.#editor;
    const style = getComputedStyle(area);
    const before = area.value.slice(0, this.#found.from).split("\n");
    const ruler = h("span", { class: "completion-ruler" }, before.at(-1));
    this.node.append(ruler);
    const x = parseFloat(style.paddingLeft) + ruler.getBoundingClientRect().width - area.scrollLeft;
    ruler.remove();
    const y = parseFloat(style.paddingTop) + before.length * parseFloat(style.lineHeight) - area.scrollTop;
    const room = Math.max(0, this.node.clientWidth - Math.min(LIST_WIDTH, this.node.clientWidth));
    this.#listBox.style.left = `${Math.max(0, Math.min(x, room))}px`;
    this.#listBox.style.top = `${Math.min(y, area.clientHeight) + 4}px`;
  }
}

const isAccept = (event) => (event.key === "Enter" || event.key === "Tab") && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;

/** Steps of one go round the list, larger ones stop at its ends. */
function nextIndex(index, step, count) {
  if (Math.abs(step) > 1) return Math.max(0, Math.min(count - 1, index + step));
  return index < 0 && step < 0 ? count - 1 : (index + step + count) % count;
}

/** The text for a suggestion, where it starts, and the caret within it. */
function insertion(text, from, to, { name, kind, hasParameters }) {
  if (kind === "function") {
    const hasBracket = text[to] === "(";
    return { text: hasBracket ? name : `${name}()`, start: from, caret: name.length + (hasBracket || hasParameters ? 1 : 2) };
  }
  const step = kind === "property" ? stepText(name) : name;
  const isBracket = kind === "element" || (kind === "property" && step[0] === "[");
  if (!isBracket) return { text: name, start: from, caret: name.length };
  return { text: step, start: text.slice(0, from).trimEnd().length - 1, caret: step.length }; // without the dot
}
