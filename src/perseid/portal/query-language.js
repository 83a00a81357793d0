// The text of a query: its tokens, parameters, sources and selected paths. The server parses it;
// this module knows as much as colours, completion and links need.

export const KEYWORDS = (
  "AND ARRAY AS ASC BETWEEN BY DESC DISTINCT ESCAPE EXISTS FALSE FROM GROUP IN JOIN LEFT LIKE LIMIT NOT NULL"
  + " OFFSET OR ORDER RANK RIGHT SELECT TOP TRUE UDF UNDEFINED VALUE WHERE"
).split(" ");
const KEYWORD_SET = new Set(KEYWORDS);
const IDENTIFIER = /^[\p{L}\p{Pc}][\p{L}\p{N}\p{Pc}]*$/u;

// Comments and strings may lack their end while the text is typed.
const TOKEN = new RegExp([
  /(?<comment>--[^\r\n]*|\/\*[^]*?(?:\*\/|$))/,
  /(?<string>"(?:[^"\\\r\n]|\\.)*"?|'(?:[^'\\\r\n]|\\.)*'?)/,
  /(?<parameter>@[\p{L}\p{N}\p{Pc}]*)/,
  /(?<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)/,
  /(?<word>[\p{L}\p{Pc}][\p{L}\p{N}\p{Pc}]*)/,
  /(?<symbol>[^\s])/,
].map((part) => part.source).join("|"), "gu");

/** The tokens as {kind, text, start, end}; the kind of a keyword is "keyword". */
export function tokensOf(text) {
  return Array.from(text.matchAll(TOKEN), (match) => {
    const [value] = match;
    let kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (kind === "word" && KEYWORD_SET.has(value.toUpperCase())) kind = "keyword";
    return { kind, text: value, start: match.index, end: match.index + value.length };
  });
}

const withoutComments = (text) => tokensOf(text).filter(({ kind }) => kind !== "comment");
const isKeyword = (token, word) => token?.kind === "keyword" && token.text.toUpperCase() === word;

/** The names of the parameters, each once, in the order of the text; not those in strings and comments. */
export function parametersIn(text) {
  const names = tokensOf(text).filter(({ kind, text: name }) => kind === "parameter" && name.length > 1);
  return [...new Set(names.map(({ text: name }) => name))];
}

/** Whether a string or a comment contains the position. */
export function isInText(tokens, at) {
  return tokens.some(({ kind, text, start, end }) => {
    if (kind === "comment") return start < at && (at < end || !text.endsWith("*/"));
    if (kind !== "string") return false;
    const isClosed = text.length > 1 && text.at(-1) === text[0];
    return start < at && (at < end || (at === end && !isClosed));
  });
}

/** A property of a path as text: `.name`, or `["name"]` where the language needs it. */
export function stepText(name) {
  const isPlain = IDENTIFIER.test(name) && !KEYWORD_SET.has(name.toUpperCase()); // the cloud service refuses keywords
  return isPlain ? `.${name}` : `[${JSON.stringify(name)}]`;
}

// Paths and sources

/** The path that begins at a token: {steps, next}; a step is a name, or null for an array element. */
function pathFrom(tokens, at) {
  if (tokens[at]?.kind !== "word") return null;
  const steps = [tokens[at].text];
  let next = at + 1;
  for (;;) {
    const [first, second, third] = tokens.slice(next, next + 3);
    if (first?.text === "." && /^(?:word|keyword)$/.test(second?.kind)) {
      steps.push(second.text);
      next += 2;
    } else if (first?.text === "[" && third?.text === "]" && /^(?:string|number)$/.test(second.kind)) {
      steps.push(second.kind === "number" ? null : unquoted(second.text));
      next += 3;
    } else {
      return { steps, next };
    }
  }
}

function unquoted(text) {
  try {
    return JSON.parse(`"${text.slice(1, -1).replace(/\\'/g, "'").replace(/(^|[^\\])"/g, '$1\\"')}"`);
  } catch {
    return text.slice(1, -1);
  }
}

/**
 * The first path with a property in a text, as {text, steps, parent}: `parent` is its text without
 * the last step. null if there is none.
 */
export function firstPathIn(text) {
  const tokens = withoutComments(text);
  for (let at = 0; at < tokens.length; at++) {
    const path = pathFrom(tokens, at);
    if (!path || path.steps.length < 2) continue;
    const last = path.next - (tokens[path.next - 1].text === "]" ? 3 : 2);
    const from = (end) => text.slice(tokens[at].start, end);
    return { text: from(tokens[path.next - 1].end), steps: path.steps, parent: from(tokens[last].start) };
  }
  return null;
}

/** The calls of functions in a text, outer ones first, as {name, parts}: parts are the texts of the arguments. */
export function callsIn(text) {
  const tokens = withoutComments(text);
  return tokens.flatMap((token, index) => {
    if (!/^(?:word|keyword)$/.test(token.kind) || tokens[index + 1]?.text !== "(") return []; // LEFT is a keyword, too
    let depth = 0;
    const count = tokens.slice(index + 1).findIndex((each) => {
      if (each.kind === "symbol") depth += { "(": 1, ")": -1 }[each.text] ?? 0;
      return depth === 0;
    });
    const inside = tokens.slice(index + 2, count < 0 ? undefined : index + 1 + count);
    const parts = splitAtCommas(inside).filter((part) => part.length);
    return [{ name: token.text.toUpperCase(), parts: parts.map((part) => text.slice(part[0].start, part.at(-1).end)) }];
  });
}

/**
 * The aliases of FROM and JOIN: Map of the alias and its path from the item, [] for the item
 * itself. Without FROM any name is the item.
 */
export function aliasesIn(text) {
  const tokens = withoutComments(text);
  const aliases = new Map();
  tokens.forEach((token, index) => {
    const isFirst = isKeyword(token, "FROM");
    if (!isFirst && !isKeyword(token, "JOIN")) return;
    const isIteration = tokens[index + 1]?.kind === "word" && isKeyword(tokens[index + 2], "IN");
    const path = pathFrom(tokens, isIteration ? index + 3 : index + 1);
    if (!path) return;
    const base = aliases.get(path.steps[0]) ?? []; // the first name of FROM is the container
    const steps = [...base, ...path.steps.slice(1)];
    if (isIteration) return void aliases.set(tokens[index + 1].text, [...steps, null]);
    const after = isKeyword(tokens[path.next], "AS") ? tokens[path.next + 1] : tokens[path.next];
    const alias = after?.kind === "word" ? after.text : path.steps.findLast((step) => step !== null);
    aliases.set(alias, steps);
  });
  return aliases;
}

/** The steps before the position, from the item down, for `c.a[0].` at the position; null if there is none. */
export function pathBefore(text, at) {
  const tokens = withoutComments(text.slice(0, at));
  if (tokens.at(-1)?.text !== ".") return null;
  let first = tokens.length - 2;
  for (; first >= 0; first--) {
    const [before, token] = [tokens[first - 1], tokens[first]];
    if (token.text === "]") first -= 2;
    else if (before?.text === "." && /^(?:word|keyword)$/.test(token.kind)) first -= 1;
    else break;
  }
  const path = pathFrom(tokens, first);
  if (!path || path.next !== tokens.length - 1) return null;
  const aliases = aliasesIn(text);
  const base = aliases.get(path.steps[0]) ?? (aliases.size ? null : []);
  return base && [...base, ...path.steps.slice(1)];
}

/**
 * What the rows of a query are: {areItems} for SELECT * and SELECT VALUE alias, or {names} with the
 * properties that the row has unchanged from the item, as in SELECT c.id, c.n.
 */
export function selectionOf(text) {
  const tokens = withoutComments(text);
  const nothing = { areItems: false, names: new Set() };
  const [from, ...others] = tokens.flatMap((token, index) => (isKeyword(token, "FROM") ? [index] : []));
  if (from === undefined || others.length || !isKeyword(tokens[0], "SELECT")) return nothing; // with subqueries it is not clear
  const isItem = (name) => aliasesIn(text).get(name)?.length === 0;
  let at = 1;
  if (isKeyword(tokens[at], "DISTINCT")) at += 1;
  if (isKeyword(tokens[at], "TOP")) at += 2;
  const list = tokens.slice(at, from);
  if (list.length === 1 && list[0].text === "*") return { ...nothing, areItems: true };
  if (isKeyword(list[0], "VALUE")) return { ...nothing, areItems: list.length === 2 && isItem(list[1].text) };
  const counts = new Map(); // a name that appears twice is not clear
  const names = new Set();
  for (const part of splitAtCommas(list)) {
    const path = pathFrom(part, 0);
    const isPlain = path?.steps.length === 2 && path.next === part.length && isItem(path.steps[0]);
    const name = isPlain ? path.steps[1] : part.at(-1)?.text;
    counts.set(name, (counts.get(name) ?? 0) + 1);
    if (isPlain && name !== null) names.add(name);
  }
  return { areItems: false, names: new Set([...names].filter((name) => counts.get(name) === 1)) };
}

function splitAtCommas(tokens) {
  const parts = [[]];
  let depth = 0;
  for (const token of tokens) {
    if ("([{".includes(token.text)) depth += 1;
    if (")]}".includes(token.text)) depth -= 1;
    if (token.text === "," && depth === 0) parts.push([]);
    else parts.at(-1).push(token);
  }
  return parts;
}
