// Two texts compared line by line. Unchanged lines far from a difference are left out.

import { h } from "./elements.js";
import { number } from "./formats.js";

// Lines
const CONTEXT = 3; // unchanged lines that are shown around differences
const MAX_UNCHANGED = 40; // that are shown in full
const MAX_COMPARED = 2_000; // of each text
const MAX_SHOWN = 500; // of each text that is too long to compare

const MARKS = { "-": "stored", "+": "mine", " ": "" };

/** Marks the lines that are only in the stored text with minus, those only in mine with plus. */
export function diffView(stored, mine) {
  const [a, b] = [stored.split("\n"), mine.split("\n")];
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  const [left, right] = [a, b].map((lines) => lines.slice(head, lines.length - tail));
  const lines = Math.max(left.length, right.length) <= MAX_COMPARED ? compared(left, right) : listed(left, right);
  return h("pre", { class: "diff", tabindex: "0", "aria-label": "Lines of the stored version are marked with minus, your lines with plus" },
    unchanged(a.slice(0, head), { isBefore: true }),
    lines,
    unchanged(a.slice(a.length - tail), { isBefore: false }));
}

const markedLine = (mark, text) => h("span", { class: MARKS[mark] }, `${mark} ${text}\n`);
const omission = (count, what) => count > 0 && h("span", { class: "muted" }, `  … ${number(count)} ${what}\n`);

/** Unchanged lines before or after the differences: all of them, or those next to a difference. */
function unchanged(lines, { isBefore }) {
  const count = lines.length <= MAX_UNCHANGED ? lines.length : CONTEXT;
  const shown = (isBefore ? lines.slice(lines.length - count) : lines.slice(0, count)).map((text) => markedLine(" ", text));
  const rest = omission(lines.length - count, "unchanged lines");
  return isBefore ? [rest, ...shown] : [...shown, rest];
}

/** The first lines of both texts. */
function listed(stored, mine) {
  return [
    ...stored.slice(0, MAX_SHOWN).map((text) => markedLine("-", text)),
    omission(stored.length - MAX_SHOWN, "more stored lines"),
    ...mine.slice(0, MAX_SHOWN).map((text) => markedLine("+", text)),
    omission(mine.length - MAX_SHOWN, "more lines of yours"),
  ];
}

/** All lines of both texts, by their longest common subsequence. */
function compared(a, b) {
  const lengths = commonLengths(a, b);
  const lines = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(markedLine(" ", a[i++]));
      j++;
    } else if (j >= b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      lines.push(markedLine("-", a[i++]));
    } else {
      lines.push(markedLine("+", b[j++]));
    }
  }
  return lines;
}

/** [i][j]: the length of the longest common subsequence of a[i…] and b[j…]. */
function commonLengths(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}
