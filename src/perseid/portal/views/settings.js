// Scale & Settings of a container. Every save is a replace that keeps all that is not shown.

import * as api from "../api.js";
import { timeBars } from "../chart.js";
import { clock } from "../clock.js";
import { codeBox } from "../codebox.js";
import { bytes, button, confirm, dialog, failure, field, fill, form, h, loading, moment, number, plural, toast } from "../dom.js";
import { flaw, jsonSpans } from "../json.js";
import { deleteContainer } from "../making.js";
import { go } from "../routes.js";
import { throughputChoice } from "../throughput.js";
import { ttlChoice } from "../ttl-choice.js";

export function settingsView(body, { database, container }) {
  const aborter = new AbortController();
  const { signal } = aborter;
  fill(body, loading("Loading the settings"));

  // Each makes a card of what was read: {node, isChanged}, the latter where something can be typed.
  const KINDS = {
    ttl: ({ definition, status }) => ttlCard(definition, status),
    safety: ({ status }) => (status ? safetyCard(status) : { node: null }),
    throughput: ({ own }) => (own
      ? throughputCard(own, "Throughput", () => renew("throughput"))
      : { node: card("Throughput", h("p", { class: "muted" }, "This container shares the throughput of its database.")) }),
    indexing: ({ definition }) => indexingCard(definition),
    facts: ({ definition }) => ({ node: factsCard(definition) }),
  };
  let cards = {};

  async function read() {
    const definition = await api.readContainer(database, container, signal);
    const [status, own] = await Promise.all([
      api.admin("GET", api.ttl(database, container), undefined, signal).catch(() => null),
      api.readOffer(definition._rid, signal),
    ]);
    return { definition, status, own };
  }

  async function load() {
    try {
      const found = await read();
      cards = Object.fromEntries(Object.entries(KINDS).map(([name, make]) => [name, make(found)]));
      fill(body, h("div", { class: "cards" },
        h("div", { class: "stack" }, cards.ttl.node, cards.safety.node),
        h("div", { class: "stack" },
          cards.throughput.node, cards.indexing.node, cards.facts.node,
          card("Delete this container", h("p", { class: "muted" }, "Its items go with it."),
            h("footer", {}, button("Delete container", remove, { kind: "danger quiet" }))))));
    } catch (error) {
      fail(error);
    }
  }

  /** One card as the server has it now; what is typed in the others stays. */
  async function renew(name) {
    try {
      const made = KINDS[name](await read());
      cards[name].node.replaceWith(made.node);
      cards[name] = made;
      if (document.activeElement === document.body) { // it was on what was replaced
        made.node.tabIndex = -1;
        made.node.focus();
      }
    } catch (error) {
      fail(error);
    }
  }

  function fail(error) {
    if (error.name === "AbortError") return;
    cards = {};
    fill(body, failure(error, load));
  }

  // Time to Live

  function ttlCard(definition, status) {
    const current = definition.defaultTtl ?? null;
    const preview = h("div", { class: "preview", "aria-live": "polite" });
    const choice = ttlChoice(current, look);
    const save = button("Save", null, { kind: "primary", type: "submit", disabled: true });
    const undo = status?.policyChanges > 0 && button("Undo the last change", takeBack, { kind: "quiet" });
    let wait = 0;
    let asking = null;
    let seen = null; // the preview on the screen

    const isChanged = () => (choice.value ?? null) !== current;

    /** Saving waits for the preview: nobody should save what they have not seen. */
    function look() {
      save.disabled = true;
      clearTimeout(wait);
      asking?.abort();
      seen = null;
      if (!isChanged()) return fill(preview);
      wait = setTimeout(ask, 150);
    }

    async function ask() {
      asking = new AbortController();
      try {
        seen = await api.admin("POST", api.ttl(database, container, "preview"), { defaultTtl: choice.value ?? null }, asking.signal);
        fill(preview, previewShown(seen));
      } catch (error) {
        if (error.name === "AbortError") return;
        fill(preview, h("p", { class: "problem" }, error.message));
      }
      save.disabled = false;
    }

    async function submit() {
      const dies = seen?.diesNow.items ?? 0;
      if (dies && !(await confirm(`${plural(dies, "item")} will end at once`,
        "They are older than the new setting allows. They cannot be read any more as soon as you save; undo brings back those that are not removed from disk yet.",
        { yes: `End ${plural(dies, "item")}` }))) return;
      await put();
    }

    async function put(confirmation) {
      try {
        await api.changeContainer(database, container, { defaultTtl: choice.value }, { confirmation });
      } catch (error) {
        const guarded = error.status === 412 && error.body?.preview;
        if (!guarded) throw error;
        if (await confirmGuard(error, guarded)) await put(guarded.confirmationToken);
        return;
      }
      await renew("ttl");
      toast("Time to Live saved", { action: { label: "Undo", run: takeBack } });
    }

    const node = form(submit, choice.node, preview, h("footer", {}, undo, save));
    // The boundary moves with the clock: what a change would end is looked up again.
    clock.addEventListener("leap", () => node.isConnected && isChanged() && ask(), { signal });
    return { node: card("Time to Live", node), isChanged };
  }

  function confirmGuard(error, preview) {
    return dialog("The guard asks for a confirmation", (close) => {
      const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false", autofocus: true });
      const yes = button(`End ${plural(preview.diesNow.items, "item")}`, null, { kind: "danger", type: "submit" });
      yes.disabled = true;
      input.addEventListener("input", () => (yes.disabled = input.value !== container));
      return form(() => close(true),
        h("p", {}, error.message.replace(/ Send the confirmationToken.*$/, "")),
        field(["Type ", h("b", {}, container), " to do it all the same"], input),
        h("footer", {}, button("Cancel", () => close(false)), yes));
    });
  }

  async function takeBack(confirmation) {
    const headers = typeof confirmation === "string" ? { "x-perseid-confirm": confirmation } : {};
    try {
      const done = await api.admin("POST", api.ttl(database, container, "undo"), undefined, undefined, { headers });
      const late = done.alreadyPurged ? `; ${plural(done.alreadyPurged, "item")} had been removed already` : "";
      await renew("ttl");
      toast(`Undone: ${plural(done.revived.items, "item")} live again${late}`);
    } catch (error) {
      const guarded = error.status === 412 && error.body?.preview;
      if (guarded && (await confirmGuard(error, guarded))) return takeBack(guarded.confirmationToken);
      if (!guarded) toast(error.message, { kind: "bad" });
    }
  }

  function safetyCard(status) {
    const guard = h("input", { type: "text", class: "seconds", placeholder: "10%", autocomplete: "off", value: status.guard ?? "" });
    const hold = h("input", { type: "number", min: "0", class: "seconds", value: String(status.purgeHoldSeconds), required: true });
    const typed = () => ({ guard: guard.value.trim() || null, purgeHoldSeconds: Number(hold.value) });
    let kept = JSON.stringify(typed());
    const isChanged = () => JSON.stringify(typed()) !== kept;
    const node = card("Safety", form(async () => {
      const sent = typed();
      await api.admin("PUT", api.ttl(database, container), sent);
      kept = JSON.stringify(sent);
      toast("Safety settings saved");
    },
    field("Guard against mass expiry", guard, "A change that would end more than this at once has to be confirmed: a number of items, or a share like 10%. Empty: the server's setting."),
    field("Keep the dead on disk, in seconds", hold, "For so long an undo can bring them back."),
    h("footer", {}, button("Save", null, { kind: "primary", type: "submit" }))));
    return { node, isChanged };
  }

  // Indexing

  function indexingCard(definition) {
    const original = JSON.stringify(definition.indexingPolicy, null, 2);
    const box = codeBox(jsonSpans, { label: "Indexing policy as JSON", value: original, rows: 14 });
    const reset = button("Reset", () => (box.value = original), { kind: "quiet" });
    const node = card("Indexing policy", form(async () => {
      const wrong = flaw(box.value);
      if (wrong) {
        box.mark(wrong.at, wrong.at + 1);
        throw new Error(`This is not JSON: ${wrong.why} (line ${wrong.line}).`);
      }
      await api.changeContainer(database, container, { indexingPolicy: JSON.parse(box.value) }, { seen: definition });
      await renew("indexing");
      toast("Indexing policy saved");
    }, box.node, h("footer", {}, reset, button("Save", null, { kind: "primary", type: "submit" }))));
    return { node, isChanged: () => box.value !== original };
  }

  function factsCard(definition) {
    const unique = definition.uniqueKeyPolicy?.uniqueKeys ?? [];
    const facts = [
      ["Partition key", definition.partitionKey.paths.join(", ")],
      ["Key version", String(definition.partitionKey.version ?? 1)],
      ["Unique keys", unique.length ? unique.map((each) => each.paths.join(", ")).join("; ") : "none"],
      ["Resource id", definition._rid],
      ["Last change", moment(definition._ts)],
    ];
    return card("About", h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))])));
  }

  async function remove() {
    if (await deleteContainer(database, container)) go({ database });
  }

  load();
  return {
    dispose: () => aborter.abort(),
    canLeave: () => !Object.values(cards).some((each) => each.isChanged?.()),
  };
}

function card(title, ...content) {
  return h("section", { class: "card" }, h("h2", {}, title), ...content);
}

/** The throughput of a container or database, as something to change: {node, isChanged}. */
export function throughputCard(offer, title, onsaved) {
  const choice = throughputChoice({
    manual: offer.content.offerAutopilotSettings ? null : offer.content.offerThroughput,
    autoscale: offer.content.offerAutopilotSettings?.maxThroughput ?? null,
  });
  const before = JSON.stringify(choice.value);
  const node = card(title, form(async () => {
    try {
      await api.changeOffer(offer, choice.value);
    } catch (error) {
      // Part of it may be done; the next attempt starts from there.
      offer = (await api.readOffer(offer.offerResourceId).catch(() => null)) ?? offer;
      throw error;
    }
    await onsaved();
    toast("Throughput saved");
  }, choice.node, h("footer", {}, button("Save", null, { kind: "primary", type: "submit" }))));
  return { node, isChanged: () => JSON.stringify(choice.value) !== before };
}

/** What a change of Time to Live would do: figures, when who would end, a few who end now. */
function previewShown(preview) {
  const dies = preview.diesNow;
  const chart = timeBars("Who would end when", [
    { key: "items", label: "Items", format: (n) => plural(n, "item"), short: number, height: 90 },
  ]);
  const figures = [
    ["End at once", dies.items, dies.items ? bytes(dies.bytes) : ""],
    ["Get an end", preview.becomesMortal, ""],
    ["Lose their end", preview.becomesImmortal, ""],
  ];
  const node = [
    h("h3", {}, "If you save this now"),
    h("dl", { class: "figures" }, figures.map(([name, value, more], index) =>
      h("div", { class: index === 0 && value ? "bad" : "" }, h("dt", {}, name), h("dd", {}, number(value), more && h("small", {}, ` ${more}`))))),
    preview.invalidTtl > 0 && h("p", { class: "note" }, `${plural(preview.invalidTtl, "item")} with an invalid ttl ${preview.invalidTtl === 1 ? "counts" : "count"} as having none.`),
    dies.items > 0 && h("p", { class: "hint" }, "Among them: ", preview.sample.slice(0, 5).map((each, i) => [i ? ", " : "", h("code", {}, each.id)])),
    preview.histogram.length > 0 && chart.node,
  ];
  queueMicrotask(() => chart.show(withGaps(preview.histogram)));
  return node;
}

/** The bars with the empty ones between them; the server names only those that hold something. */
function withGaps(bars) {
  if (!bars.length) return bars;
  const width = bars[0].to - bars[0].from;
  const byStart = new Map(bars.map((bar) => [bar.from, bar]));
  const count = Math.round((bars.at(-1).from - bars[0].from) / width) + 1;
  return Array.from({ length: count }, (_, i) => {
    const from = bars[0].from + i * width;
    return byStart.get(from) ?? { from, to: from + width, items: 0, bytes: 0 };
  });
}
