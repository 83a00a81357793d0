// One item as JSON text: read, change, save and delete it.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { CodeEditor } from "../code-editor.js";
import { confirm, dialog, toast } from "../dialogs.js";
import { diffView } from "../diff.js";
import { button, errorBox, factList, fill, h, iconButton } from "../elements.js";
import { dateTime, number } from "../formats.js";
import { jsonSpans } from "../highlight.js";
import { differences, differenceTable } from "../json-differences.js";
import { compact, isSameText, isUserProperty, jsonError, members, objectText, pretty, SYSTEM_PROPERTIES } from "../json.js";
import { emptyItem, keyJson, keyOf, keyText } from "../partition-key.js";
import { empty, failure, loading } from "../placeholders.js";
import { LifetimePanel } from "./lifetime-panel.js";

const WITH_LIFETIME = { "x-perseid-lifetime": "true" }; // the response has the header x-perseid-expires-at

const userText = (text) => pretty(objectText(members(text).filter(isUserProperty)));

function expiresAtOf(response) {
  const expiresAt = response.headers.get("x-perseid-expires-at");
  return expiresAt === null ? null : Number(expiresAt);
}

/** The same line by line, drawn when it is opened: it takes longer for large items. */
function lineDifferences(stored, mine) {
  const node = h("details", { ontoggle: () => node.childElementCount === 1 && node.append(diffView(stored, mine)) }, h("summary", {}, "Show line by line"));
  return node;
}

export class ItemEditor {
  #aborter = new AbortController();
  #pane;
  #database;
  #container;
  #definition;
  #target; // {id, key} of the item; null for a new one
  #events; // {onchange, onclose, onnamed}
  #editor = null; // null until the item is loaded
  #savedText = "";
  #stored = null; // the item on the server; null for a new one
  #isSaving = false;
  #error = errorBox();
  #jsonNote = h("p", { class: "hint json-note", id: "json-note" });
  #facts = h("div", {});
  #lifetime;
  #saveButton = button("Save", () => this.#save(), { kind: "primary", title: "Ctrl+S" });
  #formatButton = button("Format", () => this.#format(), { title: "One line for each member; numbers stay as they are" });

  /** `onnamed(key, id)` is called when the item has a new id. */
  constructor(pane, { database, container, definition, target, ...events }) {
    this.#pane = pane;
    this.#database = database;
    this.#container = container;
    this.#definition = definition;
    this.#target = target;
    this.#events = events;
    this.#lifetime = new LifetimePanel({ database, container }, definition.defaultTtl ?? null, (ttl) => this.#setTtl(ttl));
    pane.onkeydown = (event) => this.#onKey(event);
    clock.addEventListener("tick", () => this.#tick(), { signal: this.#aborter.signal });
    if (target) this.#load();
    else this.#startNew();
  }

  dispose() {
    this.#aborter.abort();
  }

  #tick() {
    this.#lifetime.drawRemaining();
    if (this.#lifetime.isMissing) this.#saveButton.disabled = false;
  }

  /** White space between the tokens of JSON is not a change. */
  isDirty() {
    return this.#editor !== null && !isSameText(this.#editor.value, this.#savedText);
  }

  /** A new item can be saved as it is, and an item that no longer exists can be saved again. */
  #canSave() {
    return !this.#stored || this.#lifetime.isMissing || this.isDirty();
  }

  // Requests

  #path = () => api.itemPath(this.#database, this.#container, this.#stored ?? this.#target);
  #keyHeader = (key = this.#target.key) => api.partitionKeyHeader(keyJson(key));

  #read({ signal, ...headers } = {}) {
    return api.call("GET", this.#path(), { headers: { ...this.#keyHeader(), ...WITH_LIFETIME, ...headers }, signal });
  }

  async #load() {
    const { signal } = this.#aborter;
    fill(this.#pane, loading("Loading the item"));
    try {
      if (!this.#path().at(-1)) {
        this.#target._rid = await api.readItemRid(this.#database, this.#container, this.#target, this.#keyHeader(), signal);
      }
      this.#accept(await this.#read({ signal }));
      this.#draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(this.#pane, this.#header(), error.status === 404
        ? empty("This item does not exist", "It has expired or was deleted.", button("Close", this.#events.onclose))
        : failure(error, () => this.#load()));
    }
  }

  /** Takes over the server's version; text that was typed after `sent` stays. */
  #accept(response, sent = this.#editor?.value) {
    this.#savedText = userText(response.text);
    this.#stored = response.json;
    this.#lifetime.setStored(this.#stored, expiresAtOf(response));
    if (this.#editor && this.#editor.value === sent && sent !== this.#savedText) this.#editor.rewrite(this.#savedText);
  }

  /** Checks whether the item still exists and when it expires: other clients may have changed that. */
  async refresh(definition) {
    this.#lifetime.setDefaultTtl(definition.defaultTtl ?? null);
    if (!this.#editor || !this.#stored || this.#isSaving) return;
    const before = this.#stored;
    const isOutdated = () => this.#stored !== before || this.#isSaving;
    try {
      const response = await this.#read({ signal: this.#aborter.signal, "if-none-match": before._etag });
      if (isOutdated()) return;
      if (response.status === 304) this.#lifetime.setStored(this.#stored, expiresAtOf(response));
      else if (!this.isDirty()) this.#accept(response);
      else return void this.#lifetime.setExists(); // saving will show both versions
    } catch (error) {
      if (error.status !== 404 || isOutdated()) return;
      this.#lifetime.setMissing();
    }
    this.#drawStored();
  }

  // Drawing

  #startNew() {
    const id = globalThis.crypto?.randomUUID?.() ?? `item-${Date.now()}`;
    this.#savedText = JSON.stringify(emptyItem(id, this.#definition.partitionKey), null, 2);
    this.#draw();
    this.#editor.area.focus();
    this.#editor.area.setSelectionRange(0, 0);
  }

  #header() {
    const { onclose } = this.#events;
    return h("header", { class: "pane-head" },
      iconButton("back", "Back to the list", onclose, { class: "icon-button back" }),
      h("div", { class: "pane-title" },
        h("h2", {}, this.#target ? this.#target.id : "New item"),
        this.#target && h("p", { class: "muted" }, keyText(this.#target.key))),
      h("div", { class: "grow" }),
      this.#stored && button("Delete", () => this.#delete(), { kind: "danger quiet" }),
      this.#editor && this.#formatButton,
      this.#editor && this.#saveButton,
      iconButton("close", "Close", onclose, { class: "icon-button front" }));
  }

  #draw() {
    this.#editor = new CodeEditor(jsonSpans, { label: "Item as JSON", value: this.#savedText, rows: 14, describedby: "json-note" });
    this.#editor.area.addEventListener("input", () => this.#drawEffect());
    fill(this.#pane,
      this.#header(),
      this.#error.node,
      this.#editor.node,
      this.#jsonNote,
      this.#lifetime.node,
      this.#stored && h("details", { class: "system" }, h("summary", {}, "System properties"), this.#facts,
        button("Explain expiry", () => this.#explain(), { kind: "small" })));
    this.#drawStored();
  }

  /** Shows the server's version next to the text; the text and the focus stay. */
  #drawStored() {
    if (this.#stored) {
      fill(this.#facts, factList([...SYSTEM_PROPERTIES].map((name) =>
        [name, [h("code", {}, String(this.#stored[name])), name === "_ts" && ` ${dateTime(this.#stored._ts)}`]])));
    }
    this.#drawEffect();
    this.#lifetime.drawRemaining();
  }

  /** Shows an error in the text, or what saving it would do. */
  #drawEffect() {
    const invalid = jsonError(this.#editor.value);
    this.#jsonNote.classList.toggle("bad", Boolean(invalid));
    this.#jsonNote.textContent = invalid ? `Invalid JSON: ${invalid.reason} (line ${number(invalid.line)}, column ${number(invalid.column)})` : "";
    this.#saveButton.disabled = !this.#canSave();
    this.#formatButton.disabled = Boolean(invalid);
    this.#lifetime.showEffect(invalid || !this.isDirty() ? null : JSON.parse(this.#editor.value));
  }

  /** One line for each member; numbers keep all their digits. */
  #format() {
    if (jsonError(this.#editor.value)) return;
    this.#editor.rewrite(pretty(this.#editor.value));
    this.#editor.area.focus();
    this.#drawEffect();
  }

  /** Sets the ttl in the text; null removes it. */
  #setTtl(ttl) {
    if (jsonError(this.#editor.value)) return this.#editor.area.focus();
    const list = members(this.#editor.value);
    const index = list.findIndex(([name]) => name === "ttl");
    const replacement = ttl === null ? [] : [["ttl", String(ttl)]];
    if (index >= 0) list.splice(index, 1, ...replacement);
    else list.push(...replacement);
    this.#editor.rewrite(pretty(objectText(list)));
    this.#drawEffect();
  }

  // Saving

  #onKey(event) {
    if (!(event.ctrlKey || event.metaKey) || event.key !== "s") return;
    event.preventDefault();
    if (this.#editor) this.#save();
  }

  async #save() {
    if (this.#isSaving) return;
    if (!this.#canSave()) return toast("No changes to save");
    this.#isSaving = true;
    this.#error.hide();
    try {
      const invalid = jsonError(this.#editor.value);
      if (invalid) {
        this.#editor.mark(invalid.at);
        this.#error.show(`Invalid JSON: ${invalid.reason}.`);
      } else {
        await (this.#stored ? this.#replace(this.#stored._etag) : this.#create());
      }
    } finally {
      this.#isSaving = false;
    }
  }

  /** Resolves to whether the item was created. */
  async #create() {
    const sent = this.#editor.value;
    const key = keyOf(Object(JSON.parse(sent)), this.#definition.partitionKey, () => sent);
    try {
      const response = await api.call("POST", api.items(this.#database, this.#container), { body: compact(sent), headers: this.#keyHeader(key) });
      const { id } = response.json;
      this.#savedText = sent;
      toast(`Item ${id} created`);
      this.#events.onchange();
      this.#events.onnamed(key, id);
      return true;
    } catch (error) {
      this.#error.show(error.message);
      return false;
    }
  }

  async #replace(etag) {
    const sent = this.#editor.value;
    try {
      this.#accept(await api.call("PUT", this.#path(), {
        body: compact(sent), // line breaks and indents would count towards the maximum size of an item
        headers: { ...this.#keyHeader(), ...WITH_LIFETIME, "if-match": etag },
      }), sent);
      this.#drawStored();
      toast("Saved");
      this.#events.onchange();
      if (this.#stored.id !== this.#target.id && !this.isDirty()) this.#events.onnamed(this.#target.key, this.#stored.id);
    } catch (error) {
      if (error.status === 412) await this.#resolveConflict();
      else if (error.status === 404) await this.#offerCreate();
      else this.#error.show(error.message);
    }
  }

  /** Another client has written the item: shows both versions and asks which one to keep. */
  async #resolveConflict() {
    let response;
    try {
      response = await this.#read();
    } catch (error) {
      return error.status === 404 ? this.#offerCreate() : this.#error.show(error.message);
    }
    const stored = userText(response.text);
    const list = differences(stored, this.#editor.value);
    if (!list.length) { // another client has saved the same content
      this.#accept(response);
      this.#drawStored();
      toast("Another client has already saved the same content");
      return this.#events.onchange();
    }
    const choice = await dialog("Another client has changed this item", (close) => [
      h("p", {}, `It was written at ${dateTime(response.json._ts)}, after you opened it. Your changes are not saved yet.`),
      differenceTable(list, ["Stored", "Yours"]),
      lineDifferences(stored, pretty(this.#editor.value)),
      h("footer", {},
        button("Keep editing", () => close("")),
        button("Use the stored version", () => close("stored")),
        button("Overwrite", () => close("mine"), { kind: "primary" })),
    ], { isWide: true });
    if (choice === "stored") {
      this.#accept(response);
      this.#drawStored();
      this.#events.onchange();
    } else if (choice === "mine") {
      await this.#replace(response.json._etag);
    }
  }

  /** The item has expired or was deleted while it was edited: offers to create it again. */
  async #offerCreate() {
    const isAccepted = await confirm("This item no longer exists", "It has expired or was deleted since you opened it. You can save your text as a new item.", { yes: "Save as new", kind: "primary" });
    if (!isAccepted) return;
    const previous = this.#stored;
    this.#stored = null;
    if (await this.#create()) await this.#load();
    else this.#stored = previous; // the text stays, with the error message
  }

  async #delete() {
    if (!(await confirm(`Delete item ${this.#target.id}?`, "This cannot be undone."))) return;
    try {
      await api.call("DELETE", this.#path(), { headers: this.#keyHeader() });
    } catch (error) {
      if (error.status !== 404) return this.#error.show(error.message);
    }
    toast(`Item ${this.#target.id} deleted`);
    if (this.#editor) this.#savedText = this.#editor.value;
    this.#events.onchange();
    this.#events.onclose();
  }

  async #explain() {
    const { id, key } = this.#target;
    try {
      const body = `{"id":${JSON.stringify(id)},"partitionKey":${keyJson(key)}}`;
      const { live, rule, reason, ttlSource, expiresAt } = await api.admin("POST", api.ttl(this.#database, this.#container, "explain"), { body });
      await dialog("Expiry of this item", () => factList([
        ["State", live ? "live" : "expired"],
        ["Rule", rule],
        ["Reason", reason],
        ["TTL source", ttlSource],
        [live ? "Expires at" : "Expired at", expiresAt === null ? "never" : dateTime(expiresAt)],
      ]));
    } catch (error) {
      this.#error.show(error.message);
    }
  }
}
