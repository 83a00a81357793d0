// Two JSON texts compared by value: order of properties, white space and the spelling of numbers do
// not matter. Numbers are compared as decimals, because JavaScript would round them.

import { h, table } from "./elements.js";
import { number, truncated } from "./formats.js";
import { singleLine, tokenMatches } from "./json.js";

const MAX_SHOWN = 200; // differences
const MAX_VALUE = 300; // characters

/** A number as sign, digits and exponent, equal for all spellings of the same value. */
function canonicalNumber(text) {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [null, "", text];
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (!significant) return "0";
  return `${sign}${significant}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - significant.length)}`;
}

/** The value of a valid JSON text: {kind, start, end} with members or a value that can be compared. */
function parse(text) {
  const open = [];
  let root = null;
  let name = null;
  let previous = null; // a string that may be a name
  const add = (node) => {
    const parent = open.at(-1);
    if (!parent) root = node;
    else if (parent.kind === "array") parent.members.push(node);
    else if (name === null) previous = JSON.parse(text.slice(node.start, node.end));
    else {
      parent.members.set(name, node); // of equal names the last one counts, as on the server
      name = null;
    }
  };
  for (const { 0: token, index } of tokenMatches(text)) {
    const end = index + token.length;
    if (token === "{" || token === "[") {
      const node = token === "{" ? { kind: "object", members: new Map(), start: index } : { kind: "array", members: [], start: index };
      add(node);
      open.push(node);
    } else if (token === "}" || token === "]") open.pop().end = end;
    else if (token === ":") name = previous;
    else if (token !== ",") add({ kind: "scalar", value: scalarValue(token), start: index, end });
  }
  return root;
}

function scalarValue(token) {
  if (token[0] === '"') return JSON.stringify(JSON.parse(token));
  return /^-?\d/.test(token) ? canonicalNumber(token) : token;
}

const step = (path, name) => (/^[A-Za-z_]\w*$/.test(name) ? (path ? `${path}.${name}` : name) : `${path}[${JSON.stringify(name)}]`);

/** Yields [path, nodeOfA or undefined, nodeOfB or undefined] for each difference. */
function* compared(a, b, path) {
  if (a && b && a.kind === b.kind && a.kind === "object") {
    for (const [name, node] of a.members) yield* compared(node, b.members.get(name), step(path, name));
    for (const [name, node] of b.members) if (!a.members.has(name)) yield [step(path, name), undefined, node];
  } else if (a && b && a.kind === b.kind && a.kind === "array") {
    yield* comparedLists(a.members, b.members, path);
  } else if (!a || !b || a.kind !== b.kind || a.value !== b.value) {
    yield [path, a, b];
  }
}

const isEqual = (a, b) => compared(a, b, "").next().done;

/** By index, after equal members at the end of both lists: one more member is one difference. */
function* comparedLists(a, b, path) {
  let [aEnd, bEnd] = [a.length, b.length];
  if (aEnd !== bEnd) while (aEnd > 0 && bEnd > 0 && isEqual(a[aEnd - 1], b[bEnd - 1])) [aEnd, bEnd] = [aEnd - 1, bEnd - 1];
  const end = Math.max(aEnd, bEnd);
  for (let i = 0; i < end; i++) {
    const [left, right] = [i < aEnd ? a[i] : undefined, i < bEnd ? b[i] : undefined];
    yield* compared(left, right, `${path}[${i}]`);
  }
}

/** The differences as [{path, a, b}]; a and b are JSON texts, or undefined where there is no value. */
export function differences(a, b) {
  const textIn = (text, node) => node && text.slice(node.start, node.end);
  return Array.from(compared(parse(a), parse(b), ""), ([path, left, right]) => ({ path, a: textIn(a, left), b: textIn(b, right) }));
}

/** A table of differences by property. */
export function differenceTable(list, [first, second]) {
  const cell = (text, kind) => (text === undefined
    ? h("td", { class: "muted" }, "(absent)")
    : h("td", { class: `mono ${kind}` }, truncated(singleLine(text.slice(0, 10 * MAX_VALUE)), MAX_VALUE)));
  const omitted = list.length - MAX_SHOWN;
  return h("div", { class: "stack" },
    table(["Property", first, second], list.slice(0, MAX_SHOWN).map(({ path, a, b }) => h("tr", {},
      h("th", { scope: "row", class: "mono" }, path || "(whole item)"), cell(a, "stored"), cell(b, "mine"))), { wrapper: "differences" }),
    omitted > 0 && h("p", { class: "hint" }, `${number(omitted)} more differences are not shown.`));
}
