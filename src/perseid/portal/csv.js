// Rows as CSV, with the rules of `perseid export`: a header with the names of all properties, then
// a row for each. Cells and JSON values correspond one to one, so that an import gives the same
// items; a string that would be read as another value is written as JSON, with its quotes.

import { compact, jsonError, members, SYSTEM_PROPERTIES } from "./json.js";

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const WORDS = new Set(["true", "false", "null", "TRUE", "FALSE", "NULL"]);
const NEEDS_QUOTES = /[",\r\n]|^[\s\x1c-\x1f\x85]|[\s\x1c-\x1f\x85]$/;
const VALUE = "value"; // the column of rows that are not objects

export function csvText(rows) {
  const objects = rows.map((row) => (row.startsWith("{") ? new Map(members(row)) : new Map([[VALUE, row]])));
  const names = [...new Set(objects.flatMap((members) => [...members.keys()]))];
  // System properties last; otherwise in the order in which rows have them.
  const columns = [...names.filter((name) => !SYSTEM_PROPERTIES.has(name)), ...names.filter((name) => SYSTEM_PROPERTIES.has(name))];
  const lines = [columns, ...objects.map((object) => columns.map((name) => cell(name, object.get(name))))];
  return lines.map((cells) => `${cells.map(quoted).join(",")}\n`).join("");
}

function cell(name, json) {
  if (json === undefined) return "";
  if (json[0] !== '"') return compact(json);
  const text = JSON.parse(json);
  return name === "id" || isReadAsString(text) ? text : json;
}

/** Whether an import reads the cell as this text, and not as another JSON value or as nothing. */
function isReadAsString(text) {
  const isJson = /^["[{]/.test(text) && !jsonError(text);
  return text !== "" && !WORDS.has(text) && !NUMBER.test(text) && !isJson;
}

const quoted = (text) => (NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
