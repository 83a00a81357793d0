// The server's clock, polled often enough for countdowns. It may be frozen or jump forward.

import { admin, ServerUnreachable } from "./api.js";

const SHORT_INTERVAL = 2_000; // milliseconds; for a clock that can be moved, and after a failure
const LONG_INTERVAL = 15_000;
const JUMP = 1.5; // seconds of difference that count as a jump

/** Dispatches `tick` after each full second, `change` after each poll, `jump` after a jump. */
class ServerClock extends EventTarget {
  isMovable = false;
  mayMove = null; // whether this key may move it; null until that is known
  isFrozen = false;
  isHeld = false; // frozen until the system clock reaches it
  hasJumped = false; // the system clock jumped, which is neither confirmed nor rejected
  isKnown = false; // false: this computer's clock is shown, because the server's was not read yet
  isUnreachable = false; // the last poll failed
  #offset = 0; // seconds from performance.now() to the server's time
  #frozenAt = 0;
  #isRunning = false;
  #pollTimer = 0;
  #tickTimer = 0;

  /** Seconds since the epoch by the server's clock. */
  now() {
    return this.isFrozen ? this.#frozenAt : performance.now() / 1000 + this.#offset;
  }

  start() {
    this.stop();
    this.#isRunning = true;
    this.isKnown = this.isMovable = this.isFrozen = this.isHeld = this.hasJumped = false;
    this.mayMove = null;
    this.#offset = (performance.timeOrigin || Date.now() - performance.now()) / 1000;
    document.addEventListener("visibilitychange", this.#poll);
    this.#poll();
    this.#tick();
  }

  stop() {
    this.#isRunning = false;
    document.removeEventListener("visibilitychange", this.#poll);
    clearTimeout(this.#pollTimer);
    clearTimeout(this.#tickTimer);
  }

  #poll = async () => {
    clearTimeout(this.#pollTimer);
    if (document.hidden) return;
    await this.#read();
    if (!this.#isRunning) return; // stopped during the request
    clearTimeout(this.#pollTimer);
    this.#pollTimer = setTimeout(this.#poll, this.isMovable || this.isUnreachable ? SHORT_INTERVAL : LONG_INTERVAL);
  };

  async #read() {
    const sentAt = performance.now();
    try {
      this.#update(await admin("GET", ["clock"]), sentAt);
      this.isUnreachable = false;
      if (this.isMovable) this.mayMove ??= await hasMasterKey();
    } catch (error) {
      // The last known time, or else this computer's time, is shown as an estimate.
      this.isUnreachable = error instanceof ServerUnreachable;
    }
    this.dispatchEvent(new Event("change"));
  }

  /** Action: freeze, resume, advance {seconds} or set {to}. */
  async move(action, body) {
    const sentAt = performance.now();
    this.#update(await admin("POST", ["clock", action], { body }), sentAt);
    this.dispatchEvent(new Event("change"));
  }

  /** Decision about a jump of the system clock: confirm or reject. */
  async decide(decision) {
    await admin("POST", ["sweeper", `${decision}-clock`]);
    await this.#read();
  }

  #update(state, sentAt) {
    const previous = this.isKnown ? this.now() : null;
    this.isKnown = true;
    this.isMovable = state.movable;
    this.isHeld = state.heldUntil !== null;
    this.hasJumped = Boolean(state.alarm);
    this.isFrozen = Boolean(state.frozen) || this.isHeld;
    this.#frozenAt = state.now;
    this.#offset = state.now - (sentAt + performance.now()) / 2000;
    this.#tick();
    if (previous !== null && Math.abs(state.now - previous) > JUMP) this.dispatchEvent(new Event("jump"));
  }

  #tick() {
    clearTimeout(this.#tickTimer);
    this.dispatchEvent(new Event("tick"));
    if (this.isFrozen) return;
    const now = this.now();
    const untilNextSecond = (Math.floor(now) + 1 - now) * 1000 + 5;
    this.#tickTimer = setTimeout(() => this.#tick(), untilNextSecond);
  }
}

/** Requests something that read-only keys may not read. */
async function hasMasterKey() {
  try {
    await admin("GET", ["sweeper"]);
    return true;
  } catch (error) {
    if (error.status === 403) return false;
    throw error;
  }
}

export const clock = new ServerClock();
