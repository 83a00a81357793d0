// A text area with coloured text behind it. Everything a text area can do it still does: undo,
// Tab to leave, spell-free typing, the system's own selection. A browser lays out all of a text
// area at each keystroke, so of a very large text it is given one piece at a time.

import { button, h, newId, number } from "./dom.js";

const LARGEST_WHOLE = 200_000; // characters
const PIECE = 100_000; // of what is larger
const ALL_COLOURED = 5_000; // characters; of more, only lines near those that are seen
const LONGEST_COLOURED = 50_000; // characters of such lines
const MARGIN = 40; // lines coloured above and below those that are seen

/** {node, area, value, rewrite(text), mark(start, end)}; `spans` colours a text. */
export function codeBox(spans, { label, value = "", rows = 12, readonly = false, describedby = null } = {}) {
  const coloured = h("div", { class: "code-coloured" });
  const backdrop = h("pre", { class: "code-back", "aria-hidden": "true" }, coloured);
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
  });
  const where = h("span", { class: "muted", role: "status" });
  const earlier = button("Earlier", () => turn(before.length - PIECE), { kind: "small" });
  const later = button("Later", () => turn(before.length + area.value.length), { kind: "small" });
  const wanted = h("input", {
    type: "search",
    placeholder: "Find in all of it",
    "aria-label": "Find in all of the text",
    autocomplete: "off",
    spellcheck: "false",
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      find();
    },
  });
  const pieces = h("div", { class: "code-pieces", role: "group", "aria-label": "Pieces of the text", hidden: true },
    earlier, later, where, wanted);
  const node = h("div", { class: "code" }, backdrop, area, pieces);
  let before = ""; // of a very large text: what comes before the piece in the area, and what after
  let after = "";
  let lines = []; // those in the area
  let painted = { first: 0, last: 0 };

  const whole = () => before + area.value + after;

  /** Puts a text into the area, or the piece of it that begins with the line at `from`. */
  function show(text, from = 0) {
    let start = 0;
    let end = text.length;
    if (text.length > LARGEST_WHOLE) {
      start = lineStart(text, Math.max(0, Math.min(from, text.length - PIECE)));
      end = pieceEnd(text, start);
    }
    before = text.slice(0, start);
    after = text.slice(end);
    area.value = text.slice(start, end);
    say();
    paint();
  }

  function turn(from) {
    show(whole(), from);
    area.setSelectionRange(0, 0);
    area.scrollTop = area.scrollLeft = 0;
    follow();
  }

  function say() {
    pieces.hidden = !before && !after;
    if (pieces.hidden) return;
    earlier.disabled = !before;
    later.disabled = !after;
    const [above, here, below] = [before, area.value, after].map(lineEnds);
    const last = above + here + (after && area.value.endsWith("\n") ? 0 : 1);
    where.textContent = `Lines ${number(above + 1)}–${number(last)} of ${number(above + here + below + 1)}`;
  }

  /** The next place of what is looked for, behind the selection; from the start again after the last. */
  function find() {
    if (!wanted.value) return;
    const text = whole();
    const from = before.length + area.selectionEnd;
    const at = [text.indexOf(wanted.value, from), text.indexOf(wanted.value)].find((each) => each >= 0);
    if (at === undefined) where.textContent = "Not found";
    else reveal(at, at + wanted.value.length);
    wanted.focus();
  }

  /** Selects a part of the whole text, and scrolls to it. */
  function reveal(start, end) {
    if (start < before.length || end > before.length + area.value.length) show(whole(), start);
    else say();
    const [from, to] = [start - before.length, end - before.length];
    area.focus();
    area.setSelectionRange(from, to);
    const line = lineEnds(area.value.slice(0, from));
    const top = line * lineHeight();
    if (top < area.scrollTop || top > area.scrollTop + area.clientHeight - 3 * lineHeight()) {
      area.scrollTop = top - area.clientHeight / 2;
    }
    follow();
  }

  /** As the browser has rounded it; all lines have the same. */
  function lineHeight() {
    const style = getComputedStyle(area);
    const text = area.scrollHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
    return area.scrollHeight > area.clientHeight ? text / lines.length : parseFloat(style.lineHeight) || 19;
  }

  function seen() {
    const height = lineHeight();
    const first = Math.floor(area.scrollTop / height);
    return { first, last: first + Math.ceil(area.clientHeight / height) + 1 };
  }

  function paint() {
    lines = area.value.split("\n");
    colour();
    follow();
  }

  function colour() {
    painted = { first: 0, last: lines.length };
    if (area.value.length > ALL_COLOURED) {
      const { first, last } = seen();
      painted = { first: Math.max(0, first - MARGIN), last: Math.min(lines.length, last + MARGIN) };
    }
    const text = lines.slice(painted.first, painted.last).join("\n");
    const isPlain = text.length > LONGEST_COLOURED; // then colours would slow the typing
    node.classList.toggle("plain", isPlain);
    const fragment = document.createDocumentFragment();
    if (!isPlain) for (const [kind, part] of spans(text)) fragment.append(kind ? h("span", { class: `c-${kind}` }, part) : part);
    coloured.replaceChildren(fragment);
  }

  function follow() {
    if (painted.first > 0 || painted.last < lines.length) {
      const { first, last } = seen();
      if (first < painted.first || Math.min(last, lines.length) > painted.last) colour();
    }
    const top = painted.first ? painted.first * lineHeight() : 0;
    coloured.style.top = `${top - area.scrollTop}px`;
    coloured.style.left = `${-area.scrollLeft}px`;
  }

  area.addEventListener("input", () => {
    say();
    paint();
  });
  area.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text/plain").replace(/\r\n?/g, "\n");
    if (area.readOnly || area.value.length + text.length <= LARGEST_WHOLE) return;
    event.preventDefault(); // the browser would take minutes
    const start = before + area.value.slice(0, area.selectionStart) + text;
    show(start + area.value.slice(area.selectionEnd) + after, start.length - PIECE / 2);
    reveal(start.length, start.length);
    area.dispatchEvent(new Event("input", { bubbles: true }));
  });
  area.addEventListener("scroll", follow);
  new ResizeObserver(follow).observe(area); // it has no height until it is on the page
  show(value);
  return {
    node,
    area,
    get value() {
      return whole();
    },
    set value(text) {
      show(text);
    },
    /** The same text a little different: the piece and the selection stay where they are. */
    rewrite(text) {
      const { selectionStart, selectionEnd, scrollTop, scrollLeft } = area;
      show(text, before.length);
      area.setSelectionRange(selectionStart, selectionEnd);
      Object.assign(area, { scrollTop, scrollLeft });
      follow();
    },
    /** Puts the selection on a place, so that it is seen and can be typed over. */
    mark: (start, end) => reveal(start, Math.max(end, start + 1)),
  };
}

const lineEnds = (text) => {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
};

/** Where the line begins that holds a place; in a line longer than a piece, the place itself. */
function lineStart(text, at) {
  if (at === 0) return 0;
  const start = text.lastIndexOf("\n", at - 1) + 1;
  return at - start < PIECE / 2 ? start : betweenCharacters(text, at);
}

/** Where a piece ends: after a line, or within one that is longer than a piece. */
function pieceEnd(text, start) {
  if (text.length - start <= 1.5 * PIECE) return text.length; // no crumbs
  const end = text.lastIndexOf("\n", start + PIECE - 1) + 1;
  return end > start ? end : betweenCharacters(text, start + PIECE);
}

/** The same place, unless it would part the two units of one character. */
const betweenCharacters = (text, at) => (/[\ud800-\udbff]/.test(text[at - 1]) ? at - 1 : at);

/** Coloured text that is only for reading; of a very large one, its beginning. */
export function codeShown(spans, text, label) {
  const node = h("pre", { class: "code-shown", tabindex: "0", "aria-label": label });
  const shown = text.slice(0, pieceEnd(text, 0));
  if (shown.length > ALL_COLOURED * 4) node.textContent = shown;
  else for (const [kind, part] of spans(shown)) node.append(kind ? h("span", { class: `c-${kind}` }, part) : part);
  if (shown === text) return node;
  const note = `The first ${number(lineEnds(shown))} of ${number(lineEnds(text) + 1)} lines; copying and downloading take all of them.`;
  return h("div", { class: "stack" }, h("p", { class: "hint" }, note), node);
}
