// Syntax colours: splits JSON and SQL texts into [class, text] spans that cover the whole text.

import { tokenMatches } from "./json.js";

const JSON_WORDS = /^(?:true|false|null)$/;

export const jsonSpans = (text) => spans(text, tokenMatches(text), (token, end) => {
  if (token[0] === '"') return /^\s*:/.test(text.slice(end, end + 40)) ? "name" : "string";
  if (/^[{}[\]:,]$/.test(token)) return "punctuation";
  return JSON_WORDS.test(token) ? "keyword" : "number";
});

const SQL_TOKENS = /--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|@\w+|\b\d+(?:\.\d+)?\b|\b[a-z_]\w*\b/gi;
const SQL_KEYWORDS = new Set(
  ("select top distinct value as from in join where order by group asc desc offset limit and or not"
    + " between like escape exists array null true false undefined rank").split(" "),
);

export const sqlSpans = (text) => spans(text, text.matchAll(SQL_TOKENS), (token) => {
  if (token.startsWith("--")) return "punctuation";
  if (token[0] === "'" || token[0] === '"') return "string";
  if (token[0] === "@") return "name";
  if (/^\d/.test(token)) return "number";
  return SQL_KEYWORDS.has(token.toLowerCase()) ? "keyword" : "";
});

export const plainSpans = (text) => [["", text]];

/** `classOf(token, end)` is the class of a token; the text between tokens has none. */
function* spans(text, matches, classOf) {
  let end = 0;
  for (const { 0: token, index } of matches) {
    if (index > end) yield ["", text.slice(end, index)];
    end = index + token.length;
    yield [classOf(token, end), token];
  }
  if (end < text.length) yield ["", text.slice(end)];
}
