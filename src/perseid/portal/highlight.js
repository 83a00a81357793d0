// Syntax colours: splits JSON and SQL texts into [class, text] spans that cover the whole text.

import { tokenMatches } from "./json.js";
import { tokensOf as sqlTokens } from "./query-language.js";

const JSON_WORDS = /^(?:true|false|null)$/;

export const jsonSpans = (text) => spans(text, tokenMatches(text), (token, end) => {
  if (token[0] === '"') return /^\s*:/.test(text.slice(end, end + 40)) ? "name" : "string";
  if (/^[{}[\]:,]$/.test(token)) return "punctuation";
  return JSON_WORDS.test(token) ? "keyword" : "number";
});

const SQL_CLASSES = { comment: "punctuation", string: "string", parameter: "name", number: "number", keyword: "keyword" };

export const sqlSpans = (text) => {
  const tokens = sqlTokens(text);
  const kinds = tokens.map(({ kind }) => kind).values();
  const matches = tokens.map(({ text: token, start }) => ({ 0: token, index: start }));
  return spans(text, matches, () => SQL_CLASSES[kinds.next().value] ?? "");
};

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
