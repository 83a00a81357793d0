// Uploads items from JSON and JSON Lines files, after all of them were checked.

import * as api from "../api.js";
import { dialog } from "../dialogs.js";
import { button, field, fill, form, h, newId, savesChanges, submitButton } from "../elements.js";
import { number, plural } from "../formats.js";
import { compact, isUserProperty, jsonError, members, objectText } from "../json.js";

const MAX_LISTED = 50; // problems
const MAX_LINES = 500; // in a request
const MAX_BYTES = 1_000_000; // of a request; the server allows 2 MB, and one item may have that much
const MODES = {
  fail: ["Create only", "An item whose id exists already in its partition is not stored; it is listed as an error."],
  replace: ["Overwrite", "An existing item with the same id and partition key is replaced."],
};

/** Opens `onfiles` with the files that are dropped on a node. */
export function acceptDroppedFiles(node, onfiles, signal) {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  node.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    node.classList.add("drop-target");
  }, { signal });
  node.addEventListener("dragleave", (event) => !node.contains(event.relatedTarget) && node.classList.remove("drop-target"), { signal });
  node.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    node.classList.remove("drop-target");
    onfiles([...event.dataTransfer.files]);
  }, { signal });
}

/** The items of a file: {items: [{text, where}], problems: [text]}; numbers stay as they are written. */
export function itemsOf(name, text) {
  const content = text.replace(/^\ufeff/, "");
  const error = jsonError(content);
  if (!error) {
    if (content.trimStart().startsWith("[")) return checked(members(content).map((each, i) => ({ text: each, where: `${name}, index ${number(i)}` })));
    return checked([{ text: content, where: name }]);
  }
  const lines = content.split("\n").map((line, i) => ({ text: line, where: `${name}, line ${number(i + 1)}` })).filter((line) => line.text.trim());
  const isArray = /^\s*\[/.test(content);
  if (isArray || lines.length < 2 || jsonError(lines[0].text)) {
    return { items: [], problems: [`${name}, line ${number(error.line)}, column ${number(error.column)}: ${error.reason}.`] };
  }
  return checked(lines);
}

function checked(entries) {
  const problems = entries.map(({ text, where }) => {
    const reason = problemOf(text);
    return reason && `${where}: ${reason}`;
  }).filter(Boolean);
  return { items: entries, problems };
}

function problemOf(text) {
  const error = jsonError(text);
  if (error) return `${error.reason} (column ${number(error.column)}).`;
  const item = JSON.parse(text);
  if (item === null || typeof item !== "object" || Array.isArray(item)) return "An item must be a JSON object.";
  if (typeof item.id !== "string" || !item.id) return "An item needs an id, a text that is not empty.";
  return null;
}

/** Without the properties that the server sets. */
const lineOf = (text) => compact(objectText(members(text).filter(isUserProperty)));

/** Groups of items, each small enough for one request: [{items, body}]. */
function* requestsOf(items) {
  let group = [];
  let size = 0;
  const encoder = new TextEncoder();
  const request = () => ({ items: group, body: group.map(({ line }) => line).join("\n") });
  for (const each of items) {
    const line = lineOf(each.text);
    const bytes = encoder.encode(line).length + 1;
    if (group.length && (size + bytes > MAX_BYTES || group.length >= MAX_LINES)) {
      yield request();
      [group, size] = [[], 0];
    }
    group.push({ ...each, line });
    size += bytes;
  }
  if (group.length) yield request();
}

const problemList = (problems) => h("ul", { class: "failures", "aria-label": "Problems" },
  problems.slice(0, MAX_LISTED).map((text) => h("li", {}, text)),
  problems.length > MAX_LISTED && h("li", {}, `${number(problems.length - MAX_LISTED)} more problems are not listed.`));

class UploadDialog {
  #route;
  #items = [];
  #hasStored = false;
  #isStopped = false;
  #isReady = false; // items are chosen and were not sent yet
  #isRunning = false;
  #files = h("input", { type: "file", multiple: true, accept: ".json,.jsonl,.ndjson,application/json", onchange: () => this.#read([...this.#files.files]) });
  #summary = h("div", { role: "status", class: "stack" });
  #progress = h("progress", { "aria-label": "Uploaded items", hidden: true });
  #start = submitButton("Upload", { disabled: true });
  #stop = button("Stop", () => (this.#isStopped = true), { hidden: true });
  #modes;

  constructor(route) {
    this.#route = route;
    const group = newId("existing");
    this.#modes = Object.fromEntries(Object.keys(MODES).map((name) => [name, h("input", { type: "radio", name: group, value: name, checked: name === "fail" })]));
  }

  /** Resolves to whether items were stored. */
  async open() {
    await dialog(`Upload items to ${this.#route.container}`, (close) => savesChanges(form(() => this.#upload(),
      field("Files", this.#files, "JSON (an array of items or one item) or JSON Lines (one item per line). You can also drop files on the list."),
      h("fieldset", {}, h("legend", {}, "Existing items"), h("div", { class: "choices" }, Object.entries(MODES).map(([name, [label, text]]) =>
        h("div", { class: "choice" }, h("label", {}, this.#modes[name], h("span", {}, h("b", {}, label), h("small", {}, text))))))),
      this.#summary, this.#progress,
      h("footer", {}, button("Close", () => close()), this.#stop, this.#start)), () => this.#isReady));
    this.#isStopped = true; // closing the dialog stops the upload
    return this.#hasStored;
  }

  async read(files) {
    if (files.length) await this.#read(files);
  }

  async #read(files) {
    if (this.#isRunning) return;
    this.#setReady(false);
    this.#items = [];
    const problems = [];
    for (const file of files) {
      const result = itemsOf(file.name, await file.text());
      this.#items.push(...result.items);
      problems.push(...result.problems);
    }
    this.#setReady(problems.length === 0 && this.#items.length > 0);
    fill(this.#summary, problems.length
      ? [h("p", { class: "problem" }, `${plural(problems.length, "problem")}. Nothing was uploaded; correct the files first.`), problemList(problems)]
      : h("p", {}, this.#items.length ? `${plural(this.#items.length, "item")} in ${plural(files.length, "file")}, ready to upload.` : "The files contain no items."));
  }

  #setReady(isReady) {
    this.#isReady = isReady;
    this.#start.disabled = !isReady;
  }

  async #upload() {
    const existing = Object.keys(this.#modes).find((name) => this.#modes[name].checked);
    const totals = { created: 0, replaced: 0, sent: 0, problems: [] };
    Object.assign(this.#progress, { max: this.#items.length, value: 0, hidden: false });
    this.#stop.hidden = false;
    this.#isRunning = true;
    this.#isStopped = false;
    try {
      for (const request of requestsOf(this.#items)) {
        await this.#send(request, existing, totals);
        this.#progress.value = totals.sent;
        this.#drawTotals(totals, false);
        if (this.#isStopped) break;
      }
      this.#drawTotals(totals, true);
    } catch (error) {
      this.#drawTotals(totals, true);
      throw error;
    } finally {
      this.#isRunning = false;
      this.#stop.hidden = true;
      this.#isReady = false; // until other files are chosen
    }
  }

  async #send({ items, body }, existing, totals) {
    const { database, container } = this.#route;
    const search = `?existing=${existing}`;
    const result = await api.admin("POST", ["import", database, container], { body, search });
    totals.created += result.created;
    totals.replaced += result.replaced;
    this.#hasStored ||= result.created + result.replaced > 0;
    totals.sent += items.length - (result.unread ?? 0);
    for (const { line, message } of result.refused) totals.problems.push(`${items[line - 1].where}: ${message}`);
    if (result.unread) this.#isStopped = true; // the server stops after many errors
  }

  #drawTotals({ created, replaced, sent, problems }, isFinished) {
    const rest = this.#items.length - sent;
    const stopped = isFinished && rest > 0 ? ` ${plural(rest, "item")} not sent.` : "";
    fill(this.#summary,
      h("p", {}, `${isFinished ? "" : "Uploading: "}${plural(created, "item")} created, ${number(replaced)} replaced, ${number(problems.length)} refused.${stopped}`),
      problems.length > 0 && problemList(problems));
  }
}

/** Asks for files, unless some are given, and uploads them. Resolves to whether items were stored. */
export function uploadItems(route, files) {
  const upload = new UploadDialog(route);
  const closed = upload.open();
  upload.read(files);
  return closed;
}
