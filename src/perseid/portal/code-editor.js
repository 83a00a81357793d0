// A text area over coloured text: undo, selection and Tab are those of the browser. A browser lays
// out the whole text area at each key press, so the area holds only one part of a very large text.

import { button, h, newId, textInput } from "./elements.js";
import { number } from "./formats.js";

// Characters
const MAX_UNSPLIT = 200_000;
const PART_SIZE = 100_000; // of larger texts
const MAX_FULLY_COLOURED = 5_000; // of larger texts only the lines near the visible ones are coloured
const MAX_COLOURED = 50_000; // longer lines stay plain: colours would slow down typing

const MARGIN = 40; // lines that are coloured above and below the visible ones
const DEFAULT_LINE_HEIGHT = 19;

/** An editor; `spans(text)` yields [class, text] pairs. The controls of parts are below the text. */
export class CodeEditor {
  #spans;
  #coloured = h("div", { class: "code-coloured" });
  #parts;
  #before = ""; // the text before the part in the area
  #after = ""; // the text after it
  #lines = []; // of the text in the area
  #painted = { first: 0, last: 0 };
  #isWrapped = false; // on a phone lines wrap, so they have different heights

  constructor(spans, { label, value = "", rows = 12, describedby = null } = {}) {
    this.#spans = spans;
    this.area = h("textarea", {
      class: "code-text",
      "aria-label": label,
      "aria-describedby": describedby,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      wrap: "off",
      rows,
      id: newId("code"),
      oninput: () => this.#textChanged(),
      onpaste: (event) => this.#paste(event),
      onscroll: () => this.#alignColours(),
    });
    this.#parts = partControls({
      previous: () => this.#showPart(this.#before.length - PART_SIZE),
      next: () => this.#showPart(this.#before.length + this.area.value.length),
      find: () => this.#find(),
    });
    this.node = h("div", { class: "code" },
      h("pre", { class: "code-backdrop", "aria-hidden": "true" }, this.#coloured), this.area, this.#parts.node);
    new ResizeObserver(() => this.#sizeChanged()).observe(this.area); // it has no height before it is on the page
    this.#show(value);
  }

  /** The whole text. */
  get value() {
    return this.#before + this.area.value + this.#after;
  }

  set value(text) {
    this.#show(text);
  }

  /** Replaces the text; the part, the selection and the scroll position stay. */
  rewrite(text) {
    const { selectionStart, selectionEnd, scrollTop, scrollLeft } = this.area;
    this.#show(text, this.#before.length);
    this.area.setSelectionRange(selectionStart, selectionEnd);
    Object.assign(this.area, { scrollTop, scrollLeft });
    this.#alignColours();
  }

  /** Selects a position of the whole text and scrolls to it. */
  mark(start, end = start) {
    this.#reveal(start, Math.max(end, start + 1));
  }

  // Parts of a large text

  /** Shows a text, or the part of it that begins with the line at `from`. */
  #show(text, from = 0) {
    let start = 0;
    let end = text.length;
    if (text.length > MAX_UNSPLIT) {
      start = lineStart(text, Math.max(0, Math.min(from, text.length - PART_SIZE)));
      end = partEnd(text, start);
    }
    this.#before = text.slice(0, start);
    this.#after = text.slice(end);
    this.area.value = text.slice(start, end);
    this.#textChanged();
  }

  #showPart(from) {
    this.#show(this.value, from);
    this.area.setSelectionRange(0, 0);
    this.area.scrollTop = this.area.scrollLeft = 0;
    this.#alignColours();
  }

  #textChanged() {
    this.#parts.update(this.#before, this.area.value, this.#after);
    this.#lines = this.area.value.split("\n");
    this.#paint();
    this.#alignColours();
  }

  /** Selects the next match after the selection; after the last match it starts again. */
  #find() {
    const pattern = this.#parts.search.value;
    if (!pattern) return;
    const text = this.value;
    const from = this.#before.length + this.area.selectionEnd;
    const at = [text.indexOf(pattern, from), text.indexOf(pattern)].find((each) => each >= 0);
    if (at === undefined) this.#parts.showNotFound();
    else this.#reveal(at, at + pattern.length);
    this.#parts.search.focus();
  }

  #reveal(start, end) {
    const isInPart = start >= this.#before.length && end <= this.#before.length + this.area.value.length;
    if (isInPart) this.#parts.update(this.#before, this.area.value, this.#after);
    else this.#show(this.value, start);
    const [from, to] = [start - this.#before.length, end - this.#before.length];
    const { area } = this;
    area.focus();
    area.setSelectionRange(from, to);
    const top = this.#isWrapped ? this.#heightOf(area.value.slice(0, from)) : lineBreaks(area.value.slice(0, from)) * this.#lineHeight();
    const isVisible = top >= area.scrollTop && top <= area.scrollTop + area.clientHeight - 3 * this.#lineHeight();
    if (!isVisible) area.scrollTop = top - area.clientHeight / 2;
    this.#alignColours();
  }

  /** A large text is pasted here: the browser would need minutes. */
  #paste(event) {
    const { area } = this;
    const text = event.clipboardData.getData("text/plain").replace(/\r\n?/g, "\n");
    if (area.value.length + text.length <= MAX_UNSPLIT) return;
    event.preventDefault();
    const start = this.#before + area.value.slice(0, area.selectionStart) + text;
    this.#show(start + area.value.slice(area.selectionEnd) + this.#after, start.length - PART_SIZE / 2);
    this.#reveal(start.length, start.length);
    area.dispatchEvent(new Event("input", { bubbles: true }));
  }

  // Colours

  /** Measured, because browsers round it; all lines have the same height. */
  #lineHeight() {
    const { area } = this;
    const style = getComputedStyle(area);
    if (area.scrollHeight <= area.clientHeight) return parseFloat(style.lineHeight) || DEFAULT_LINE_HEIGHT;
    return (area.scrollHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom)) / this.#lines.length;
  }

  /** The height of a text in lines that wrap. */
  #heightOf(text) {
    const probe = h("div", { class: "code-coloured" }, text);
    probe.style.width = this.#coloured.style.width;
    this.#coloured.parentElement.append(probe);
    const height = probe.offsetHeight;
    probe.remove();
    return height;
  }

  #sizeChanged() {
    const isWrapped = getComputedStyle(this.area).whiteSpace === "pre-wrap";
    if (isWrapped !== this.#isWrapped) {
      this.#isWrapped = isWrapped;
      this.#paint();
    }
    this.#alignColours();
  }

  #visibleLines() {
    const height = this.#lineHeight();
    const first = Math.floor(this.area.scrollTop / height);
    return { first, last: first + Math.ceil(this.area.clientHeight / height) + 1 };
  }

  #paint() {
    const count = this.#lines.length;
    this.#painted = { first: 0, last: count };
    if (this.area.value.length > MAX_FULLY_COLOURED && !this.#isWrapped) {
      const { first, last } = this.#visibleLines();
      this.#painted = { first: Math.max(0, first - MARGIN), last: Math.min(count, last + MARGIN) };
    }
    const text = this.#lines.slice(this.#painted.first, this.#painted.last).join("\n");
    const isPlain = text.length > MAX_COLOURED;
    this.node.classList.toggle("plain", isPlain);
    this.#coloured.replaceChildren(...(isPlain ? [] : colouredNodes(this.#spans(text))));
  }

  #alignColours() {
    const count = this.#lines.length;
    if (this.#painted.first > 0 || this.#painted.last < count) {
      const { first, last } = this.#visibleLines();
      if (first < this.#painted.first || Math.min(last, count) > this.#painted.last) this.#paint();
    }
    const top = this.#painted.first ? this.#painted.first * this.#lineHeight() : 0;
    this.#coloured.style.top = `${top - this.area.scrollTop}px`;
    const { paddingLeft, paddingRight } = getComputedStyle(this.area);
    const width = this.area.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight); // without the scroll bar
    this.#coloured.style.width = this.#isWrapped ? `${width}px` : "";
    this.#coloured.style.left = `${-this.area.scrollLeft}px`;
  }
}

/** The controls below a large text: {node, search, update(before, part, after), showNotFound()}. */
function partControls({ previous, next, find }) {
  const position = h("span", { class: "muted", role: "status" });
  const previousButton = button("Previous part", previous, { kind: "small" });
  const nextButton = button("Next part", next, { kind: "small" });
  const search = textInput({
    type: "search",
    placeholder: "Find in the whole text",
    "aria-label": "Find in the whole text",
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      find();
    },
  });
  const node = h("div", { class: "code-parts", role: "group", "aria-label": "Parts of the text", hidden: true },
    previousButton, nextButton, position, search);
  return {
    node,
    search,
    update(before, part, after) {
      node.hidden = !before && !after;
      if (node.hidden) return;
      previousButton.disabled = !before;
      nextButton.disabled = !after;
      const [above, within, below] = [before, part, after].map(lineBreaks);
      const last = above + within + (after && part.endsWith("\n") ? 0 : 1);
      position.textContent = `Lines ${number(above + 1)}–${number(last)} of ${number(above + within + below + 1)}`;
    },
    showNotFound() {
      position.textContent = "Not found";
    },
  };
}

/** Coloured text that cannot be edited; of a very large text only its beginning. */
export function codeView(spans, text, label) {
  const shown = text.slice(0, partEnd(text, 0));
  const isPlain = shown.length > MAX_FULLY_COLOURED * 4;
  const node = h("pre", { class: "code-view", tabindex: "0", "aria-label": label });
  node.append(...(isPlain ? [shown] : colouredNodes(spans(shown))));
  if (shown === text) return node;
  const note = `The first ${number(lineBreaks(shown))} of ${number(lineBreaks(text) + 1)} lines. Copy and download include all lines.`;
  return h("div", { class: "stack" }, h("p", { class: "hint" }, note), node);
}

const colouredNodes = (spans) => Array.from(spans, ([kind, text]) => (kind ? h("span", { class: `code-${kind}` }, text) : text));

function lineBreaks(text) {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

/** The start of the line at a position; in a line longer than half a part, the position itself. */
function lineStart(text, at) {
  if (at === 0) return 0;
  const start = text.lastIndexOf("\n", at - 1) + 1;
  return at - start < PART_SIZE / 2 ? start : characterStart(text, at);
}

/** The end of a part: after a line, or within a line that is longer than a part. */
function partEnd(text, start) {
  if (text.length - start <= 1.5 * PART_SIZE) return text.length; // the last part may be larger
  const end = text.lastIndexOf("\n", start + PART_SIZE - 1) + 1;
  return end > start ? end : characterStart(text, start + PART_SIZE);
}

/** The position, or the one before it if it is within a surrogate pair. */
const characterStart = (text, at) => (/[\ud800-\udbff]/.test(text[at - 1]) ? at - 1 : at);
