// The filter of the list of items: a part of the id, or a WHERE clause of a query.

import { button, fill, h, newId, textInput } from "../elements.js";
import { positionInWhere } from "./item-source.js";

const TYPING_PAUSE = 200; // milliseconds
const KINDS = { id: "Id contains", where: "WHERE" };

export class ItemFilter {
  #onchange;
  #typingTimer = 0;
  #applied = { id: "", where: "" };
  #submittedSelection = ""; // in the field, when the filter was applied
  #errorId = newId("filter-error");
  #kind = h("select", { "aria-label": "Filter by", onchange: () => this.#kindChanged() },
    Object.entries(KINDS).map(([name, label]) => h("option", { value: name }, label)));
  #input = textInput({ type: "search", "data-shortcut": "/", "aria-describedby": this.#errorId, oninput: () => this.#typed() });
  #apply = button("Apply", null, { type: "submit", hidden: true });
  #error = h("p", { class: "filter-error", id: this.#errorId, role: "alert", hidden: true });
  node = h("form", { class: "filter", role: "search", onsubmit: (event) => {
    event.preventDefault();
    this.#submit();
  } }, this.#kind, this.#input, this.#apply, this.#error);

  /** `onchange()` is called when another filter applies. */
  constructor({ id = "", where = "" }, onchange) {
    this.#onchange = onchange;
    this.set({ id, where });
  }

  dispose() {
    clearTimeout(this.#typingTimer);
  }

  /** {id, where}; one of them or both are empty. */
  get value() {
    return this.#applied;
  }

  /** Takes over a filter from the address. */
  set({ id = "", where = "" }) {
    if (id === this.#applied.id && where === this.#applied.where && this.#input.value) return;
    this.#applied = where ? { id: "", where } : { id, where: "" };
    this.#kind.value = where || (this.#kind.value === "where" && !id) ? "where" : "id";
    this.#input.value = where || id;
    this.#draw();
  }

  #draw() {
    const isWhere = this.#kind.value === "where";
    this.#input.setAttribute("aria-label", isWhere ? "WHERE clause" : "Filter by id");
    this.#input.placeholder = isWhere ? "c.user = 'ada'" : "Filter by id";
    this.#input.title = isWhere ? "SELECT * FROM c WHERE …; press Enter to apply it" : "";
    this.#input.classList.toggle("mono", isWhere);
    this.#apply.hidden = !isWhere;
    this.node.classList.toggle("is-where", isWhere);
  }

  #kindChanged() {
    this.hideError();
    this.#draw();
    this.#submit();
    this.#input.focus();
  }

  /** A part of an id applies while it is typed; a clause would nearly always be incomplete then. */
  #typed() {
    clearTimeout(this.#typingTimer);
    if (/^\s*where\s/i.test(this.#input.value) && this.#kind.value === "id") {
      this.#kind.value = "where";
      this.#input.value = this.#input.value.replace(/^\s*where\s+/i, "");
      return this.#draw();
    }
    if (this.#kind.value === "id" || !this.#input.value) this.#typingTimer = setTimeout(() => this.#submit(), TYPING_PAUSE);
  }

  #submit() {
    clearTimeout(this.#typingTimer);
    const typed = this.#input.value.trim().replace(/^where\s+/i, "");
    const next = this.#kind.value === "where" ? { id: "", where: typed } : { id: typed, where: "" };
    if (next.where && this.#input.value !== typed) this.#input.value = typed; // positions of errors refer to it
    this.#submittedSelection = this.#selection();
    this.hideError();
    if (next.id === this.#applied.id && next.where === this.#applied.where && !next.where) return;
    this.#applied = next;
    this.#onchange();
  }

  /** Shows an error of the server with its position; false if it is not about the clause. */
  showError(error) {
    const { where } = this.#applied;
    if (!where || error.status !== 400) return false;
    const position = positionInWhere(error, where);
    const column = position && position.start <= where.length ? ` (column ${[...where.slice(0, position.start)].length + 1})` : "";
    fill(this.#error, `${error.message}${column}`);
    this.#error.hidden = false;
    this.#input.setAttribute("aria-invalid", "true");
    // Only once: the list is loaded again while the user corrects the clause.
    const isUntouched = this.#input.value === where && this.#selection() === this.#submittedSelection;
    if (position && isUntouched && document.activeElement === this.#input) {
      this.#input.setSelectionRange(position.start, Math.max(position.end, position.start + 1));
    }
    return true;
  }

  #selection() {
    return `${this.#input.selectionStart}-${this.#input.selectionEnd}`;
  }

  hideError() {
    this.#error.hidden = true;
    this.#input.removeAttribute("aria-invalid");
  }
}
