// One item as text: read, change, save, delete; and what its ttl means.

import * as api from "../api.js";
import { clock } from "../clock.js";
import { codeBox } from "../codebox.js";
import { button, confirm, dialog, empty, failure, fill, h, iconButton, loading, moment, number, toast } from "../dom.js";
import { compact, flaw, joined, jsonSpans, parts, pretty, SYSTEM } from "../json.js";
import { blank, keyJson, keyOf, keyText } from "../keys.js";
import { because, countdown, isTtlTaken, lifetime, span } from "../lifetime.js";
import { link } from "../routes.js";

const LIFETIMES = [["1 min", 60], ["1 h", 3_600], ["1 day", 86_400], ["30 days", 2_592_000]];
const WITH_LIFETIME = { "x-perseid-lifetime": "true" };

export function itemEditor(pane, { database, container, definition, target, onchange, onclose, onnamed }) {
  const aborter = new AbortController();
  const { signal } = aborter;
  let defaultTtl = definition.defaultTtl ?? null;
  let box = null;
  let saved = ""; // the text as the server has it
  let stored = null; // the item as the server has it, or null for a new one
  let ends = null;
  let isGone = false; // the server has said so
  let isSaving = false;

  const path = () => api.itemPath(database, container, stored ?? target);
  const keyHeader = (key) => ({ "x-ms-documentdb-partitionkey": api.headerJson(keyJson(key)) });

  async function load() {
    fill(pane, loading("Loading the item"));
    try {
      if (!path().at(-1)) target._rid = await api.ridOf(database, container, target, keyHeader(target.key), signal);
      take(await api.call("GET", path(), { headers: { ...keyHeader(target.key), ...WITH_LIFETIME }, signal }));
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(pane, header(), error.status === 404
        ? empty("This item is gone", "It has ended, or somebody has deleted it.", button("Close", onclose))
        : failure(error, load));
    }
  }

  /** What the server has answered becomes what is edited; what was typed since `sent` stays. */
  function take(answer, sent = box?.value) {
    const members = parts(answer.text);
    saved = pretty(joined(members.filter(([name]) => !SYSTEM.has(name))));
    stored = answer.json;
    ends = endOf(answer);
    isGone = false;
    if (box && box.value === sent && sent !== saved) box.rewrite(saved);
  }

  function endOf(answer) {
    const end = answer.headers.get("x-perseid-expires-at");
    return end === null ? null : Number(end);
  }

  /** Whether it still lives, and until when: the container's setting and others may have changed that. */
  async function look(next) {
    const before = defaultTtl;
    defaultTtl = next.defaultTtl ?? null;
    if (box && before !== defaultTtl) offer();
    if (!box || !stored || isSaving) return;
    const asked = stored;
    try {
      const answer = await api.call("GET", path(), {
        headers: { ...keyHeader(target.key), ...WITH_LIFETIME, "if-none-match": asked._etag },
        signal,
      });
      if (stored !== asked || isSaving) return;
      isGone = false;
      if (answer.status === 304) ends = endOf(answer);
      else if (!isDirty()) take(answer); // else saving will show both
      else return;
    } catch (error) {
      if (error.status !== 404 || stored !== asked || isSaving) return;
      isGone = true;
    }
    update();
  }

  function header() {
    return h("header", { class: "pane-head" },
      iconButton("back", "Back to the list", onclose, { class: "icon-button back" }),
      h("div", { class: "pane-title" },
        h("h2", {}, target ? target.id : "New item"),
        target && h("p", { class: "muted" }, keyText(target.key))),
      h("div", { class: "grow" }),
      target && stored && button("Delete", remove, { kind: "danger quiet" }),
      box && button("Save", save, { kind: "primary", title: "Ctrl+S" }),
      iconButton("close", "Close", onclose, { class: "icon-button front" }));
  }

  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const note = h("p", { class: "hint json-note", id: "json-note" });
  const left = h("span", { class: "left" });
  const story = h("div", {});
  const effect = h("p", { class: "effect", role: "status" });
  const choices = h("div", { class: "lifetime-choices" });
  const facts = h("dl", { class: "facts" });

  function draw() {
    box = codeBox(jsonSpans, { label: "Item as JSON", value: saved, rows: 14, describedby: "json-note" });
    box.area.addEventListener("input", judge);
    fill(pane,
      header(),
      problem,
      box.node,
      note,
      h("section", { class: "lifetime", "aria-label": "Lifetime" },
        h("h3", {}, "Lifetime"),
        stored && h("div", { class: "lifetime-now" }, left, story),
        choices,
        effect),
      stored && h("details", { class: "system" }, h("summary", {}, "System properties"), facts,
        h("dl", { class: "facts" }, h("dt", {}, "rule"), h("dd", {}, button("Ask the server", explain, { kind: "link" })))));
    offer();
    update();
    if (!target) {
      box.area.focus();
      box.area.setSelectionRange(0, 0);
    }
  }

  /** The ways to set a ttl, where it means something. */
  function offer() {
    fill(choices, defaultTtl === null
      ? h("p", { class: "hint" }, "Time to Live is off in this container: a ttl is kept as data and ends nothing. ",
        h("a", { href: link({ database, container, tab: "settings" }) }, "Switch it on"))
      : [
        h("div", { class: "row wrap", role: "group", "aria-label": "Set ttl" },
          button("Container's default", () => setTtl(null), { kind: "small", title: "Removes ttl" }),
          button("Never", () => setTtl(-1), { kind: "small", title: "ttl -1" }),
          LIFETIMES.map(([label, seconds]) => button(label, () => setTtl(seconds), { kind: "small", title: `ttl ${seconds}` }))),
        h("p", { class: "hint" }, "ttl is in seconds and counts from the last write; every save starts it again."),
      ]);
  }

  /** What the server has said of the item; the text and the focus stay. */
  function update() {
    if (stored) {
      fill(facts, [...SYSTEM].map((name) => [h("dt", {}, name), h("dd", {}, h("code", {}, String(stored[name])), name === "_ts" && ` ${moment(stored._ts)}`)]));
    }
    judge();
    tick();
  }

  /** Says what is wrong with the text, or what saving it would mean. */
  function judge() {
    const wrong = flaw(box.value);
    note.classList.toggle("bad", Boolean(wrong));
    note.textContent = wrong ? `Not JSON: ${wrong.why} (line ${number(wrong.line)}, column ${number(wrong.column)})` : "";
    effect.textContent = "";
    if (wrong || !isDirty()) return;
    const item = JSON.parse(box.value);
    if (item === null || typeof item !== "object" || defaultTtl === null) return;
    const isTaken = isTtlTaken(item, defaultTtl);
    effect.classList.toggle("bad", !isTaken);
    effect.textContent = isTaken ? meaning(item) : "The server will refuse this ttl: it takes -1, or a whole number from 1 to 2147483647.";
  }

  function meaning(item) {
    const now = Math.floor(clock.now());
    const next = lifetime({ ...item, _ts: now }, defaultTtl);
    if (next.ends === null) return "After saving: never ends.";
    return `After saving: ends ${span(next.ends - now)} later, because of ${next.origin === "item" ? "its own ttl" : "the container's default"}.`;
  }

  function tick() {
    if (!stored || !box) return;
    if (isGone) {
      left.textContent = "gone";
      left.className = "left soon";
      fill(story, h("p", {}, "It has ended, or somebody has deleted it. Save it again as a new item to keep it."));
      return;
    }
    const seconds = ends === null ? null : ends - clock.now();
    left.textContent = seconds === null ? "never ends" : seconds > 0 ? countdown(seconds) : "gone";
    left.className = `left ${seconds !== null && seconds <= 60 ? "soon" : ""}`;
    fill(story, h("p", {}, because(stored, defaultTtl)),
      ends !== null && h("p", { class: "muted" }, seconds > 0 ? `Ends at ${moment(ends)}` : `Ended at ${moment(ends)}. Save it again as a new item to keep it.`));
  }

  function setTtl(value) {
    if (flaw(box.value)) return box.area.focus();
    const members = parts(box.value);
    const at = members.findIndex(([name]) => name === "ttl");
    if (value === null) {
      if (at >= 0) members.splice(at, 1);
    } else if (at >= 0) {
      members[at] = ["ttl", String(value)];
    } else {
      members.push(["ttl", String(value)]);
    }
    box.rewrite(pretty(joined(members)));
    judge();
  }

  async function save() {
    if (isSaving) return;
    isSaving = true;
    try {
      await saveOnce();
    } finally {
      isSaving = false;
    }
  }

  async function saveOnce() {
    problem.hidden = true;
    const wrong = flaw(box.value);
    if (wrong) {
      box.mark(wrong.at, wrong.at + 1);
      return refuse(new Error(`This is not JSON: ${wrong.why}.`));
    }
    await (stored ? replace(stored._etag) : create());
  }

  async function create() {
    const sent = box.value;
    const key = keyOf(Object(JSON.parse(sent)), definition.partitionKey, () => sent);
    try {
      const answer = await api.call("POST", [...api.container(database, container), "docs"], { body: compact(sent), headers: keyHeader(key) });
      saved = sent;
      toast(`Item ${answer.json.id} created`);
      onchange();
      onnamed(key, answer.json.id);
      return true;
    } catch (error) {
      refuse(error);
      return false;
    }
  }

  async function replace(etag) {
    const sent = box.value;
    try {
      take(await api.call("PUT", path(), {
        body: compact(sent), // the server counts what is sent, and lines are most of a large item
        headers: { ...keyHeader(target.key), ...WITH_LIFETIME, "if-match": etag },
      }), sent);
      update();
      toast("Saved");
      onchange();
      if (stored.id !== target.id && !isDirty()) onnamed(target.key, stored.id);
    } catch (error) {
      if (error.status === 412) await settle();
      else if (error.status === 404) await revive();
      else refuse(error);
    }
  }

  /** Somebody else has written the item: shows both, and lets the reader choose. */
  async function settle() {
    const mine = box.value;
    let theirs;
    try {
      theirs = await api.call("GET", path(), { headers: { ...keyHeader(target.key), ...WITH_LIFETIME } });
    } catch (error) {
      return error.status === 404 ? revive() : refuse(error);
    }
    const members = parts(theirs.text).filter(([name]) => !SYSTEM.has(name));
    const choice = await dialog("Somebody has changed this item", (close) => [
      h("p", {}, `Since you opened it, at ${moment(theirs.json._ts)}, it was written by somebody else. Nothing of yours is saved yet.`),
      difference(pretty(joined(members)), mine),
      h("footer", {},
        button("Keep editing", () => close("")),
        button("Take theirs", () => close("theirs")),
        button("Save mine over it", () => close("mine"), { kind: "primary" })),
    ], { wide: true });
    if (choice === "theirs") {
      take(theirs);
      update();
      onchange();
    } else if (choice === "mine") {
      await replace(theirs.json._etag);
    }
  }

  /** The item ended or was deleted under the editor: what was typed can still become a new one. */
  async function revive() {
    const isWanted = await confirm("This item is gone", "It has ended or was deleted since you opened it. You can save your text as a new item.", { yes: "Save as new", kind: "primary" });
    if (!isWanted) return;
    const before = stored;
    stored = null;
    if (await create()) await load();
    else stored = before; // what was typed stays, with the reason
  }

  async function remove() {
    if (!(await confirm(`Delete item ${target.id}?`, "This cannot be undone."))) return;
    try {
      await api.call("DELETE", path(), { headers: keyHeader(target.key) });
    } catch (error) {
      if (error.status !== 404) return refuse(error);
    }
    toast(`Item ${target.id} deleted`);
    if (box) saved = box.value;
    onchange();
    onclose();
  }

  async function explain() {
    try {
      const answer = await api.admin("POST", api.ttl(database, container, "explain"), `{"id":${JSON.stringify(target.id)},"partitionKey":${keyJson(target.key)}}`);
      await dialog("Why it lives, or not", () => h("dl", { class: "facts" },
        [["State", answer.live ? "alive" : "ended"], ["Rule", answer.rule], ["Because", answer.because],
          ["Decided by", answer.origin], ["Ends at", answer.expiresAt === null ? "never" : moment(answer.expiresAt)]]
          .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
    } catch (error) {
      refuse(error);
    }
  }

  function refuse(error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }

  const isDirty = () => box !== null && box.value !== saved;

  pane.onkeydown = (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "s") {
      event.preventDefault();
      if (box) save();
    }
  };
  clock.addEventListener("tick", tick, { signal });
  if (target) {
    load();
  } else {
    const id = globalThis.crypto?.randomUUID?.() ?? `item-${Date.now()}`;
    saved = JSON.stringify(blank(id, definition.partitionKey), null, 2);
    draw();
  }
  return { dispose: () => aborter.abort(), isDirty, look };
}

const CONTEXT = 3; // equal lines shown around those that differ
const MOST_COMPARED = 2_000; // lines of each that are compared one by one
const MOST_SHOWN = 500; // of each, where there are more

/** The lines of two texts, those only in one of them marked; what is equal far from them is left out. */
function difference(theirs, mine) {
  const a = theirs.split("\n");
  const b = mine.split("\n");
  const node = h("pre", { class: "difference", tabindex: "0", "aria-label": "Their lines are marked with minus, yours with plus" });
  const line = (mark, text) => node.append(h("span", { class: { "-": "theirs", "+": "mine" }[mark] ?? "" }, `${mark} ${text}\n`));
  const leaveOut = (count, what) => count > 0 && node.append(h("span", { class: "muted" }, `  … ${number(count)} ${what}\n`));
  const isEqualAtEnd = (i) => a.at(-1 - i) === b.at(-1 - i);
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && isEqualAtEnd(tail)) tail++;
  const [left, right] = [a, b].map((lines) => lines.slice(head, lines.length - tail));
  const shownBefore = isFew(head) ? head : CONTEXT;
  const shownAfter = isFew(tail) ? tail : CONTEXT;
  leaveOut(head - shownBefore, "equal lines");
  for (const text of a.slice(head - shownBefore, head)) line(" ", text);
  if (Math.max(left.length, right.length) <= MOST_COMPARED) {
    compare(left, right, line);
  } else {
    for (const [mark, lines] of [["-", left], ["+", right]]) {
      for (const text of lines.slice(0, MOST_SHOWN)) line(mark, text);
      leaveOut(lines.length - MOST_SHOWN, mark === "-" ? "more lines of theirs" : "more lines of yours");
    }
  }
  for (const text of a.slice(a.length - tail, a.length - tail + shownAfter)) line(" ", text);
  leaveOut(tail - shownAfter, "equal lines");
  return node;
}

const isFew = (lines) => lines <= 40; // no more than what fits the screen

/** Calls `line` with a mark and each line of two lists, by their longest common sequence. */
function compare(a, b, line) {
  const longest = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i][j] = a[i] === b[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) line(" ", a[(j++, i++)]);
    else if (j >= b.length || (i < a.length && longest[i + 1][j] >= longest[i][j + 1])) line("-", a[i++]);
    else line("+", b[j++]);
  }
}
