// The card that changes the Time to Live of a container: shows a preview before a save, asks for
// confirmations, and undoes the last change.

import * as api from "../api.js";
import { BarChart, itemSeries } from "../chart.js";
import { clock } from "../clock.js";
import { confirm, errorToast, toast } from "../dialogs.js";
import { button, card, figure, fill, form, h, submitButton } from "../elements.js";
import { bytes, number, plural } from "../formats.js";
import { TtlChoice } from "../ttl-setting.js";

const TYPING_PAUSE = 150; // milliseconds before a preview is requested

export class TtlPolicyCard {
  #database;
  #container;
  #current;
  #choice;
  #onsaved;
  #save = submitButton("Save", { disabled: true });
  #previewBox = h("div", { class: "preview", "aria-live": "polite" });
  #preview = null; // the preview that is shown
  #previewTimer = 0;
  #previewRequest = null; // aborts it

  /** `onsaved` is called after a save or an undo. */
  constructor({ database, container }, { definition, status }, onsaved, signal) {
    this.#database = database;
    this.#container = container;
    this.#current = definition.defaultTtl ?? null;
    this.#onsaved = onsaved;
    this.#choice = new TtlChoice(this.#current, () => this.#choiceChanged());
    const undo = status?.policyChanges > 0 && button("Undo the last change", () => this.#undo(), { kind: "quiet" });
    const content = form(() => this.#submit(), this.#choice.node, this.#previewBox, h("footer", {}, undo, this.#save));
    this.node = card("Time to Live", content);
    // A preview is valid for one time only.
    clock.addEventListener("jump", () => this.node.isConnected && this.isChanged() && this.#loadPreview(), { signal });
  }

  isChanged() {
    return (this.#choice.value ?? null) !== this.#current;
  }

  /** The save button stays disabled until the preview is shown. */
  #choiceChanged() {
    this.#save.disabled = true;
    clearTimeout(this.#previewTimer);
    this.#previewRequest?.abort();
    this.#preview = null;
    if (this.isChanged()) this.#previewTimer = setTimeout(() => this.#loadPreview(), TYPING_PAUSE);
    else fill(this.#previewBox);
  }

  async #loadPreview() {
    this.#previewRequest = new AbortController();
    try {
      this.#preview = await api.admin("POST", this.#path("preview"), {
        body: { defaultTtl: this.#choice.value ?? null },
        signal: this.#previewRequest.signal,
      });
      fill(this.#previewBox, previewContent(this.#preview));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(this.#previewBox, h("p", { class: "problem" }, error.message));
    }
    this.#save.disabled = false;
  }

  async #submit() {
    const count = this.#preview?.expiresNow.items ?? 0;
    if (count && !(await confirm(`${plural(count, "item")} will expire immediately`,
      "They are older than the new setting allows. After saving they cannot be read. An undo restores those that are not purged yet.",
      { yes: `Expire ${plural(count, "item")}` }))) return;
    const defaultTtl = this.#choice.value;
    const saved = await this.#withGuard((confirmation) =>
      api.changeContainer(this.#database, this.#container, { defaultTtl }, { confirmation }));
    if (!saved) return;
    await this.#onsaved();
    toast("Time to Live saved", { action: { label: "Undo", run: () => this.#undo() } });
  }

  async #undo() {
    try {
      const result = await this.#withGuard((confirmation) =>
        api.admin("POST", this.#path("undo"), { headers: api.confirmationHeader(confirmation) }));
      if (!result) return;
      const purged = result.alreadyPurged ? `; ${plural(result.alreadyPurged, "item")} already purged` : "";
      await this.#onsaved();
      toast(`Undone: ${plural(result.restored.items, "item")} restored${purged}`);
    } catch (error) {
      errorToast(error);
    }
  }

  /** Runs a change; if the guard rejects it, asks for a confirmation and runs it again. */
  async #withGuard(change, confirmation) {
    try {
      return await change(confirmation);
    } catch (error) {
      const preview = error.status === 412 && error.body?.preview;
      if (!preview) throw error;
      const text = error.message.replace(/ [^.;]*x-perseid-confirm.*$/, ""); // the header is for programs
      const isConfirmed = await confirm("The expiry guard requires a confirmation", text,
        { yes: `Expire ${plural(preview.expiresNow.items, "item")}`, typed: this.#container });
      return isConfirmed ? this.#withGuard(change, preview.confirmationToken) : null;
    }
  }

  #path = (action) => api.ttl(this.#database, this.#container, action);
}

/** The effect of a change: counts, some of the items that expire now, when the others expire. */
function previewContent({ expiresNow, gainsExpiry, losesExpiry, invalidTtl, sample, histogram }) {
  const chart = new BarChart("When items would expire", [itemSeries(90)]);
  queueMicrotask(() => chart.show(withEmptyBuckets(histogram)));
  return [
    h("h3", {}, "Effect of saving now"),
    h("dl", { class: "figures" },
      figure("Expire immediately", number(expiresNow.items), expiresNow.items ? { detail: bytes(expiresNow.bytes), kind: "bad" } : {}),
      figure("Gain an expiry", number(gainsExpiry)),
      figure("Lose their expiry", number(losesExpiry))),
    invalidTtl > 0 && h("p", { class: "note" }, `The ttl of ${plural(invalidTtl, "item")} is invalid and is ignored.`),
    expiresNow.items > 0 && h("p", { class: "hint" }, "For example: ", sample.slice(0, 5).map(({ id }, i) => [i ? ", " : "", h("code", {}, id)])),
    histogram.length > 0 && chart.node,
  ];
}

/** The server omits empty buckets; the chart needs them. */
function withEmptyBuckets(buckets) {
  if (!buckets.length) return buckets;
  const [{ from: start, to }] = buckets;
  const width = to - start;
  const byStart = new Map(buckets.map((bucket) => [bucket.from, bucket]));
  const count = Math.round((buckets.at(-1).from - start) / width) + 1;
  return Array.from({ length: count }, (_, i) => {
    const from = start + i * width;
    return byStart.get(from) ?? { from, to: from + width, items: 0, bytes: 0 };
  });
}
