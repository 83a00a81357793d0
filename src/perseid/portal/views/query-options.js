// The options of a query: its partition key and the size of its pages, in a box below a button.

import { field, fill, h, textInput } from "../elements.js";
import { truncated } from "../formats.js";
import { keyPaths } from "../partition-key.js";
import { valueOf } from "../query-parameters.js";

const PAGE_SIZES = [25, 100, 500];
const DEFAULT_PAGE_SIZE = 100;
const MAX_KEY = 20; // characters of the partition key on the button
const LEAST_MARGIN = 8; // pixels between the box and the edge of the window

export class QueryOptions {
  #onchange;
  #summary = h("summary", {}, "Options");
  #key = textInput({ class: "mono", oninput: () => this.#edited() });
  #keyHint = h("span", {}, "Limits the query to one partition. JSON or plain text.");
  #pageSize = h("select", { onchange: () => this.#edited() }, PAGE_SIZES.map((n) => h("option", { value: n, selected: n === DEFAULT_PAGE_SIZE }, n)));

  /** `onopen` is called whenever the box opens; `signal` ends the listeners. */
  constructor(onchange, onopen, signal) {
    this.#onchange = onchange;
    const body = h("div", { class: "options-body" }, field("Partition key", this.#key, this.#keyHint), field("Page size", this.#pageSize));
    const ontoggle = () => {
      if (!this.node.open) return;
      keepInWindow(body);
      onopen();
    };
    this.node = h("details", { class: "options", ontoggle, onkeydown: (event) => this.#closeOnEscape(event) }, this.#summary, body);
    document.addEventListener("pointerdown", ({ target }) => {
      if (!this.node.contains(target)) this.node.open = false;
    }, { signal });
  }

  get pageSize() {
    return Number(this.#pageSize.value);
  }

  /** The page size, or null if it is the usual one. */
  get otherPageSize() {
    return this.pageSize === DEFAULT_PAGE_SIZE ? null : this.pageSize;
  }

  /** The JSON of the partition key, or null. If it is not valid, this shows the field and throws. */
  key() {
    try {
      return this.#parseKey();
    } catch (error) {
      this.node.open = true;
      this.#key.focus();
      throw error;
    }
  }

  /** The same without checks, for links and saved queries. */
  knownKey() {
    try {
      return this.#parseKey();
    } catch {
      return null;
    }
  }

  show(key, pageSize) {
    this.#key.value = key ?? "";
    this.#pageSize.value = PAGE_SIZES.includes(pageSize) ? pageSize : DEFAULT_PAGE_SIZE;
    this.#draw();
  }

  /** Names the paths of the container's key at the field. */
  describeKey(definition) {
    const paths = keyPaths(definition);
    if (!paths.length) return;
    const isOne = paths.length === 1;
    this.#key.placeholder = isOne ? `value of ${paths[0]}` : `[${paths.map(() => '"…"').join(", ")}]`;
    fill(this.#keyHint, isOne
      ? ["The value of ", h("code", {}, paths[0]), ", as JSON or plain text. "]
      : ["The values of ", h("code", {}, paths.join(", ")), ", or the first of them, as a JSON array. "],
    "Limits the query to one partition.");
  }

  #parseKey() {
    return valueOf("The partition key", this.#key.value.trim());
  }

  #edited() {
    this.#draw();
    this.#onchange();
  }

  /** Shows on the button what is set. */
  #draw() {
    const pageSize = this.otherPageSize && `${this.otherPageSize} rows per page`;
    this.#summary.textContent = ["Options", this.#keyText(), pageSize].filter(Boolean).join(" · ");
  }

  #keyText() {
    try {
      const key = this.#parseKey();
      return key && `partition key ${truncated(key, MAX_KEY)}`;
    } catch {
      return "partition key not valid";
    }
  }

  #closeOnEscape(event) {
    if (event.key !== "Escape") return;
    this.node.open = false;
    this.#summary.focus();
  }
}

/** Moves the box below a button so far that the window contains it. */
function keepInWindow(box) {
  box.style.left = "";
  const { left, right } = box.getBoundingClientRect();
  const excess = Math.max(right - innerWidth + LEAST_MARGIN, Math.min(left - LEAST_MARGIN, 0));
  if (excess) box.style.left = `${box.offsetLeft - excess}px`;
}
