// JSON as text: formatted and split without parsing numbers, so that a number of twenty digits is
// shown and saved unchanged.

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s{}[\]:,"]+/g;
const CLOSING = { "{": "}", "[": "]" };
const isOpening = (token) => token === "{" || token === "[";
const isClosing = (token) => token === "}" || token === "]";

export const tokensOf = (text) => text.match(TOKENS) ?? [];
export const tokenMatches = (text) => text.matchAll(TOKENS);

/** The same JSON with one line for each member. */
export function pretty(text, indent = "  ") {
  const tokens = tokensOf(text);
  const newLine = (depth) => `\n${indent.repeat(depth)}`;
  const isEmptyAt = (i) => CLOSING[tokens[i]] === tokens[i + 1];
  let depth = 0;
  let out = "";
  tokens.forEach((token, i) => {
    if (isOpening(token)) out += token + (isEmptyAt(i) ? "" : newLine(++depth));
    else if (isClosing(token)) out += (isOpening(tokens[i - 1]) && isEmptyAt(i - 1) ? "" : newLine(--depth)) + token;
    else if (token === ",") out += token + newLine(depth);
    else out += token === ":" ? ": " : withoutEscapes(token);
  });
  return out;
}

/** A JSON string with characters instead of the \u escapes that some clients send. */
function withoutEscapes(token) {
  if (token[0] !== '"' || !token.includes("\\u")) return token;
  try {
    return JSON.stringify(JSON.parse(token));
  } catch {
    return token;
  }
}

/** The members of an array as texts, or those of an object as [name, text]. */
export function members(text) {
  const list = [];
  const isObject = text.trimStart().startsWith("{");
  let depth = 0;
  let start = 0;
  let name = null;
  for (const { 0: token, index } of tokenMatches(text)) {
    if (isOpening(token)) {
      depth += 1;
      if (depth === 1) start = index + 1;
    } else if (depth === 1 && token === ":") {
      name = JSON.parse(text.slice(start, index));
      start = index + 1;
    } else if (isClosing(token) || (depth === 1 && token === ",")) {
      if (depth === 1) {
        const member = text.slice(start, index).trim();
        if (member) list.push(isObject ? [name, member] : member);
        start = index + 1;
      }
      if (token !== ",") depth -= 1;
    }
  }
  return list;
}

/** The properties that the server adds to each item. */
export const SYSTEM_PROPERTIES = new Set(["_rid", "_self", "_etag", "_attachments", "_ts"]);

export const isUserProperty = ([name]) => !SYSTEM_PROPERTIES.has(name);

/** The JSON texts of the items or rows in a response of the server. */
export const documents = (text) => members(members(text).find(([name]) => name === "Documents")[1]);

/** The same JSON without white space between its tokens. */
export const compact = (text) => tokensOf(text).join("");

/** Whether two texts are equal but for white space between the tokens of JSON. */
export function isSameText(a, b) {
  return a === b || (!jsonError(a) && !jsonError(b) && compact(a) === compact(b));
}

/** The same JSON on one line for display, without \u escapes. */
export const singleLine = (text) => tokensOf(text).map(withoutEscapes).join("");

/** The text of an object with these members. */
export function objectText(list) {
  return `{${list.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;
}

/** Where and why a text is not valid JSON, or null if it is valid. */
export function jsonError(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const at = Number(/position (\d+)/.exec(error.message)?.[1] ?? errorPosition(text)); // browsers omit it for long texts
    const message = error.message.replace(/^JSON\.parse: /, "").replace(/,? ?\.{3}?"[^]*$/, "");
    const reason = message.replace(/ in JSON at position.*$/, "").replace(/ \(line.*$/, "");
    const before = text.slice(0, at).split("\n");
    return { reason, at, line: before.length, column: before.at(-1).length + 1 };
  }
}

const SPACE = /[ \t\n\r]*/y;
const STRICT_TOKEN = /("[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\x00-\x1f]*)*")|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|([{}[\]:,])/y;
const VALUE = { string: "rest", scalar: "rest", "{": "first name", "[": "first" };
// For each state: the tokens that are allowed, and the state after each of them.
const GRAMMAR = {
  value: VALUE,
  first: { ...VALUE, "]": "rest" },
  "first name": { string: "colon", "}": "rest" },
  name: { string: "colon" },
  colon: { ":": "value" },
  rest: { ",": "value", "}": "rest", "]": "rest" },
};

/** The position of the first token that JSON does not allow. */
function errorPosition(text) {
  const open = [];
  let state = "value";
  for (let end = 0; ; end = STRICT_TOKEN.lastIndex) {
    SPACE.lastIndex = end;
    SPACE.exec(text);
    const at = (STRICT_TOKEN.lastIndex = SPACE.lastIndex);
    const match = STRICT_TOKEN.exec(text);
    if (!match || (state === "rest" && !open.length)) return at;
    const token = match[2] ?? (match[1] ? "string" : "scalar");
    state = GRAMMAR[state][token];
    if (!state) return at;
    if (isOpening(token)) open.push(token);
    else if (isClosing(token) && CLOSING[open.pop()] !== token) return at;
    else if (token === "," && open.at(-1) === "{") state = "name";
  }
}
