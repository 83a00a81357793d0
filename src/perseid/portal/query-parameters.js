// One field for each parameter of the query text. A value is JSON; other text is a string, as for
// `perseid query --parameter`.

import { fill, h, newId, textInput } from "./elements.js";
import { compact, jsonError } from "./json.js";
import { parametersIn } from "./query-language.js";

const LOOKS_LIKE_JSON = /^\s*[{["]/;

/** The JSON text of what was typed: null for nothing. Throws if it looks like JSON but is none; `name` begins the message. */
export function valueOf(name, typed) {
  if (!typed.trim()) return null;
  const invalid = jsonError(typed);
  if (!invalid) return compact(typed);
  if (LOOKS_LIKE_JSON.test(typed)) throw new Error(`${name} is not valid JSON: ${invalid.reason}. For a string, put it in double quotes: ${JSON.stringify(typed)}`);
  return JSON.stringify(typed);
}

const valueName = (name) => `The value of ${name}`;

export class ParameterFields {
  #rows = new Map(); // name: {node, input, note}
  #names = []; // in the query text
  #onchange;
  #list = h("div", { class: "parameter-fields" });
  #note = h("p", { class: "hint", role: "status" });

  constructor(onchange) {
    this.#onchange = onchange;
    this.node = h("div", { class: "parameters", role: "group", "aria-label": "Parameters", hidden: true }, this.#list, this.#note);
  }

  /** Shows the parameters of a text. A value of a parameter that is no longer there is kept, with a note. */
  update(text) {
    const names = parametersIn(text);
    if (names.join() === this.#names.join()) return;
    this.#names = names;
    this.#draw();
  }

  /** Replaces all values, which are JSON texts by name. */
  fill(values) {
    this.#rows.clear();
    for (const [name, value] of Object.entries(values)) this.#row(name.startsWith("@") ? name : `@${name}`).input.value = value;
    this.#draw();
  }

  /** The values of the parameters in the text, as JSON texts by name. Throws if one is missing or invalid. */
  values() {
    const missing = this.#names.filter((name) => !this.#row(name).input.value.trim());
    if (missing.length) {
      this.#row(missing[0]).input.focus();
      throw new Error(`${missing.join(", ")} ${missing.length === 1 ? "has" : "have"} no value. Enter ${missing.length === 1 ? "it" : "them"} below the query; "" is an empty string.`);
    }
    return Object.fromEntries(this.#names.map((name) => [name, this.#checked(name)]));
  }

  /** The same without checks, for links and saved queries: what is missing or invalid is left out. */
  knownValues() {
    return Object.fromEntries(this.#names.flatMap((name) => {
      try {
        const value = valueOf(valueName(name), this.#row(name).input.value);
        return value === null ? [] : [[name, value]];
      } catch {
        return [];
      }
    }));
  }

  #checked(name) {
    const { input } = this.#row(name);
    try {
      return valueOf(valueName(name), input.value);
    } catch (error) {
      input.focus();
      throw error;
    }
  }

  #row(name) {
    if (!this.#rows.has(name)) this.#rows.set(name, this.#newRow(name));
    return this.#rows.get(name);
  }

  #newRow(name) {
    const id = newId("parameter");
    const note = h("small", { id: `${id}-note` });
    const input = textInput({ class: "mono", id, "aria-describedby": note.id, oninput: () => {
      this.#draw();
      this.#onchange();
    } });
    return { input, note, node: h("div", { class: "parameter" }, h("label", { for: id }, name), input, note) };
  }

  #draw() {
    for (const [name, { input }] of this.#rows) {
      if (!this.#names.includes(name) && !input.value.trim()) this.#rows.delete(name);
    }
    const unused = [...this.#rows.keys()].filter((name) => !this.#names.includes(name));
    const rows = [...this.#names, ...unused].map((name) => [name, this.#row(name)]);
    for (const [name, { input, note }] of rows) note.textContent = unused.includes(name) ? "not used" : typeText(name, input.value);
    const nodes = rows.map(([, { node }]) => node);
    if (nodes.length !== this.#list.children.length || nodes.some((node, index) => node !== this.#list.children[index])) fill(this.#list, nodes);
    this.node.hidden = !rows.length;
    const isOne = unused.length === 1;
    this.#note.textContent = unused.length ? `The query does not use ${unused.join(", ")}: ${isOne ? "it is" : "they are"} not sent.` : "";
  }
}

/** How a value is sent. */
function typeText(name, typed) {
  try {
    const value = valueOf(valueName(name), typed);
    if (value === null) return "no value";
    if (value[0] === '"') return "string";
    if (value[0] === "{") return "object";
    if (value[0] === "[") return "array";
    return /^-?\d/.test(value) ? "number" : value === "null" ? "null" : "boolean";
  } catch {
    return "not valid JSON";
  }
}
