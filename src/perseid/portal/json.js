// JSON as text: laid out, taken apart and coloured without reading numbers, so that what a server
// sent with twenty digits is what is shown and saved.

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const EMPTY = { "{": "}", "[": "]" };

/** The same JSON with a line for each member. */
export function pretty(text, indent = "  ") {
  const tokens = text.match(TOKENS) ?? [];
  let depth = 0;
  let out = "";
  const line = () => `\n${indent.repeat(depth)}`;
  tokens.forEach((token, i) => {
    if (token in EMPTY) {
      if (tokens[i + 1] === EMPTY[token]) {
        out += token;
      } else {
        depth += 1;
        out += token + line();
      }
    } else if (token === "}" || token === "]") {
      if (tokens[i - 1] in EMPTY && EMPTY[tokens[i - 1]] === token) {
        out += token;
      } else {
        depth -= 1;
        out += line() + token;
      }
    } else if (token === ",") {
      out += token + line();
    } else {
      out += token === ":" ? ": " : legible(token);
    }
  });
  return out;
}

/** A string with its letters as letters, where a client sent them as \u escapes. */
function legible(token) {
  if (token[0] !== '"' || !token.includes("\\u")) return token;
  try {
    return JSON.stringify(JSON.parse(token));
  } catch {
    return token;
  }
}

/** The members of an array as texts, or those of an object as [name, text]. */
export function parts(text) {
  const found = [];
  let depth = 0;
  let start = 0;
  let name = null;
  const isObject = text.trimStart().startsWith("{");
  for (const match of text.matchAll(TOKENS)) {
    const [token] = match;
    if (token in EMPTY) {
      depth += 1;
      if (depth === 1) start = match.index + 1;
    } else if (depth === 1 && token === ":") {
      name = JSON.parse(text.slice(start, match.index));
      start = match.index + 1;
    } else if (token === "}" || token === "]" || (depth === 1 && token === ",")) {
      if (depth === 1) {
        const part = text.slice(start, match.index).trim();
        if (part) found.push(isObject ? [name, part] : part);
        start = match.index + 1;
      }
      if (token !== ",") depth -= 1;
    }
  }
  return found;
}

/** The properties that the server adds to each item. */
export const SYSTEM = new Set(["_rid", "_self", "_etag", "_attachments", "_ts"]);

/** The texts of the items or rows on a page of the server's. */
export const documents = (text) => parts(parts(text).find(([name]) => name === "Documents")[1]);

/** The same JSON without the white space between its tokens. */
export const compact = (text) => (text.match(TOKENS) ?? []).join("");

/** The same on one line for people: letters as letters. */
export const inline = (text) => (text.match(TOKENS) ?? []).map(legible).join("");

/** An object's text from its members. */
export function joined(members) {
  return `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;
}

/** Where and why a text is not JSON, or null if it is. */
export function flaw(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const at = Number(/position (\d+)/.exec(error.message)?.[1] ?? breach(text)); // of long texts, browsers do not say
    const reason = error.message.replace(/^JSON\.parse: /, "").replace(/,? ?\.{3}?"[^]*$/, "");
    const why = reason.replace(/ in JSON at position.*$/, "").replace(/ \(line.*$/, "");
    const before = text.slice(0, at).split("\n");
    return { why, at, line: before.length, column: before.at(-1).length + 1 };
  }
}

const SPACE = /[ \t\n\r]*/y;
const STRICT = /("[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\x00-\x1f]*)*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|([{}[\]:,])/y;
const VALUE = { string: "rest", scalar: "rest", "{": "first name", "[": "first" };
// What may come where, and what is wanted after it.
const GRAMMAR = {
  value: VALUE,
  first: { ...VALUE, "]": "rest" },
  "first name": { string: "colon", "}": "rest" },
  name: { string: "colon" },
  colon: { ":": "value" },
  rest: { ",": "value", "}": "rest", "]": "rest" },
};

/** Where a text stops being JSON. */
function breach(text) {
  const open = [];
  let wanted = "value";
  for (let end = 0; ; end = STRICT.lastIndex) {
    SPACE.lastIndex = end;
    SPACE.exec(text);
    const at = (STRICT.lastIndex = SPACE.lastIndex);
    const match = STRICT.exec(text);
    if (!match || (wanted === "rest" && !open.length)) return at;
    const token = match[2] ?? (match[1] ? "string" : "scalar");
    wanted = GRAMMAR[wanted][token];
    if (!wanted) return at;
    if (token in EMPTY) open.push(token);
    else if ((token === "}" || token === "]") && EMPTY[open.pop()] !== token) return at;
    else if (token === "," && open.at(-1) === "{") wanted = "name";
  }
}

const WORDS = /^(?:true|false|null)$/;

/** Spans of [class, text] that cover the whole text. */
export function* jsonSpans(text) {
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    if (match.index > end) yield ["", text.slice(end, match.index)];
    end = match.index + match[0].length;
    const token = match[0];
    if (token[0] === '"') yield [/^\s*:/.test(text.slice(end, end + 40)) ? "name" : "string", token];
    else if (/^[{}[\]:,]$/.test(token)) yield ["mark", token];
    else yield [WORDS.test(token) ? "word" : "number", token];
  }
  if (end < text.length) yield ["", text.slice(end)];
}

const SQL = /--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|@\w+|\b\d+(?:\.\d+)?\b|\b[a-z_]\w*\b/gi;
const KEYWORDS = new Set(
  ("select top distinct value as from in join where order by group asc desc offset limit and or not"
    + " between like escape exists array null true false undefined rank").split(" "),
);

export function* sqlSpans(text) {
  let end = 0;
  for (const match of text.matchAll(SQL)) {
    if (match.index > end) yield ["", text.slice(end, match.index)];
    const token = match[0];
    end = match.index + token.length;
    if (token.startsWith("--")) yield ["mark", token];
    else if (token[0] === "'" || token[0] === '"') yield ["string", token];
    else if (token[0] === "@") yield ["name", token];
    else if (/^\d/.test(token)) yield ["number", token];
    else if (KEYWORDS.has(token.toLowerCase())) yield ["word", token];
    else yield ["", token];
  }
  if (end < text.length) yield ["", text.slice(end)];
}
