// The lifetime of the item that is edited: its countdown, buttons for its ttl, the effect of a save.

import { clock } from "../clock.js";
import { button, fill, h } from "../elements.js";
import { countdown, dateTime, duration } from "../formats.js";
import { link } from "../routes.js";
import { EXPIRES_SOON, expiryOf, expiryReason, isTtlAccepted } from "../ttl.js";

const TTLS = [["1 min", 60], ["1 h", 3_600], ["1 day", 86_400], ["30 days", 2_592_000]];

export class LifetimePanel {
  #route;
  #defaultTtl;
  #onttl;
  #stored = null;
  #expiresAt = null;
  #isMissing = false; // the server has responded that the item does not exist
  #remaining = h("span", { class: "remaining" });
  #details = h("div", {});
  #now = h("div", { class: "lifetime-now", hidden: true }, this.#remaining, this.#details);
  #buttons = h("div", { class: "lifetime-choices" });
  #effect = h("p", { class: "effect", role: "status" });
  node = h("section", { class: "lifetime", "aria-label": "Lifetime" }, h("h3", {}, "Lifetime"), this.#now, this.#buttons, this.#effect);

  /** `onttl(ttl)` is called by the buttons; null means no ttl. */
  constructor(route, defaultTtl, onttl) {
    this.#route = route;
    this.#defaultTtl = defaultTtl;
    this.#onttl = onttl;
    this.#drawButtons();
  }

  setDefaultTtl(defaultTtl) {
    if (this.#defaultTtl === defaultTtl) return;
    this.#defaultTtl = defaultTtl;
    this.#drawButtons();
  }

  setStored(item, expiresAt) {
    this.#stored = item;
    this.#expiresAt = expiresAt;
    this.#isMissing = false;
  }

  setExists() {
    this.#isMissing = false;
  }

  get isMissing() {
    return this.#isMissing || (this.#stored !== null && this.#expiresAt !== null && this.#expiresAt <= clock.now());
  }

  setMissing() {
    this.#isMissing = true;
  }

  drawRemaining() {
    this.#now.hidden = !this.#stored;
    if (!this.#stored) return;
    const expiresAt = this.#expiresAt;
    const seconds = expiresAt === null ? Infinity : expiresAt - clock.now();
    this.#remaining.className = `remaining ${this.#isMissing || seconds <= EXPIRES_SOON ? "soon" : ""}`;
    if (this.#isMissing) {
      this.#remaining.textContent = "removed";
      fill(this.#details, h("p", {}, "It has expired or was deleted. To keep it, save it as a new item."));
      return;
    }
    if (expiresAt === null) this.#remaining.textContent = "never expires";
    else this.#remaining.textContent = seconds > 0 ? countdown(seconds) : "expired";
    fill(this.#details, h("p", {}, expiryReason(this.#stored, this.#defaultTtl)),
      expiresAt !== null && h("p", { class: "muted" },
        seconds > 0 ? `Expires at ${dateTime(expiresAt)}` : `Expired at ${dateTime(expiresAt)}. To keep it, save it as a new item.`));
  }

  #drawButtons() {
    if (this.#defaultTtl === null) {
      fill(this.#buttons, h("p", { class: "hint" }, "Time to Live is off in this container: a ttl is stored, but has no effect. ",
        h("a", { href: link({ ...this.#route, tab: "settings" }) }, "Turn it on")));
      return;
    }
    const ttlButton = (label, ttl, title) => button(label, () => this.#onttl(ttl), { kind: "small", title });
    fill(this.#buttons,
      h("div", { class: "row wrap", role: "group", "aria-label": "Set ttl" },
        ttlButton("Container's default", null, "Remove ttl"),
        ttlButton("Never", -1, "Set ttl to -1"),
        TTLS.map(([label, seconds]) => ttlButton(label, seconds, `Set ttl to ${seconds}`))),
      h("p", { class: "hint" }, "ttl is in seconds, counted from the last write. Each save restarts it."));
  }

  /** Shows what saving this item would do; null clears it. */
  showEffect(item) {
    this.#effect.textContent = "";
    if (item === null || typeof item !== "object" || this.#defaultTtl === null) return;
    const isAccepted = isTtlAccepted(item, this.#defaultTtl);
    this.#effect.classList.toggle("bad", !isAccepted);
    this.#effect.textContent = isAccepted
      ? this.#effectText(item)
      : "The server will reject this ttl: use -1 or a whole number from 1 to 2147483647.";
  }

  #effectText(item) {
    const now = Math.floor(clock.now());
    const { source, expiresAt } = expiryOf({ ...item, _ts: now }, this.#defaultTtl);
    if (expiresAt === null) return "After saving: never expires.";
    return `After saving: expires in ${duration(expiresAt - now)} (TTL source: ${source}).`;
  }
}
