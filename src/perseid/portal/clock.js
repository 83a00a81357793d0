// The server's clock, followed closely enough for countdowns. It may stand still or leap ahead.

import { admin, Unreachable } from "./api.js";

const OFTEN = 2_000; // for a clock that tests can move, and for a server that may be back any moment
const SELDOM = 15_000;

class ServerClock extends EventTarget {
  isMovable = false;
  mayMove = null; // whether this key may; null until that is known
  isFrozen = false;
  isHeld = false; // it stands still until the system's clock gets there
  isKnown = false; // until it has answered, and for keys that may not ask: then this machine's stands in
  isSilent = false; // the server did not answer the last time
  #offset = 0; // seconds from this page's own counter to the server's time
  #stoodAt = 0;
  #isOn = false;
  #polling = 0;
  #ticking = 0;

  /** Seconds since the epoch, as the server counts them. */
  now() {
    return this.isFrozen ? this.#stoodAt : performance.now() / 1000 + this.#offset;
  }

  start() {
    this.stop();
    this.#isOn = true;
    this.isKnown = this.isMovable = this.isFrozen = this.isHeld = false;
    this.mayMove = null;
    this.#offset = (performance.timeOrigin || Date.now() - performance.now()) / 1000;
    document.addEventListener("visibilitychange", this.#look);
    this.#look();
    this.#tick();
  }

  stop() {
    this.#isOn = false;
    document.removeEventListener("visibilitychange", this.#look);
    clearTimeout(this.#polling);
    clearTimeout(this.#ticking);
  }

  #look = async () => {
    clearTimeout(this.#polling);
    if (document.hidden) return;
    await this.sync();
    if (!this.#isOn) return; // stopped while it was asking
    clearTimeout(this.#polling);
    this.#polling = setTimeout(this.#look, this.isMovable || this.isSilent ? OFTEN : SELDOM);
  };

  async sync() {
    const sent = performance.now();
    try {
      this.#take(await admin("GET", ["clock"]), sent);
      this.isSilent = false;
      if (this.isMovable) this.mayMove ??= await isMasters();
    } catch (error) {
      // What was known last, or else this machine's time, is the best guess left.
      this.isSilent = error instanceof Unreachable;
    }
    this.dispatchEvent(new Event("change"));
  }

  /** freeze, resume, advance {seconds} or set {to}. */
  async move(how, body) {
    const sent = performance.now();
    this.#take(await admin("POST", ["clock", how], body), sent);
    this.dispatchEvent(new Event("change"));
  }

  #take(answer, sent) {
    const received = performance.now();
    const before = this.isKnown ? this.now() : null;
    this.isKnown = true;
    this.isMovable = answer.movable;
    this.isHeld = answer.heldUntil !== null;
    this.isFrozen = Boolean(answer.frozen) || this.isHeld;
    this.#stoodAt = answer.now;
    this.#offset = answer.now - (sent + received) / 2000;
    // A leap: whoever shows what the server holds has to look again.
    const leapt = before !== null && Math.abs(answer.now - before) > 1.5;
    this.#tick();
    if (leapt) this.dispatchEvent(new Event("leap"));
  }

  /** A `tick` event just after each of the server's full seconds. */
  #tick() {
    clearTimeout(this.#ticking);
    this.dispatchEvent(new Event("tick"));
    if (!this.isFrozen) {
      const now = this.now();
      const wait = (Math.floor(now) + 1 - now) * 1000 + 5;
      this.#ticking = setTimeout(() => this.#tick(), wait);
    }
  }
}

/** Whether the key is more than one that reads: asks for something only a master key gets. */
async function isMasters() {
  try {
    await admin("GET", ["sweeper"]);
    return true;
  } catch (error) {
    if (error.status === 403) return false;
    throw error;
  }
}

export const clock = new ServerClock();
