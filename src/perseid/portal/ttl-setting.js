// The Time to Live setting of a container: Off, On (no default), On with a number of seconds. (T-205)

import { h, newId, textInput } from "./elements.js";
import { duration, number } from "./formats.js";

/** The setting as a label. */
export function ttlChip(defaultTtl) {
  if (defaultTtl === null) return h("span", { class: "chip" }, "Off");
  if (defaultTtl === -1) return h("span", { class: "chip on" }, "On (no default)");
  return h("span", { class: "chip on", title: `${number(defaultTtl)} seconds` }, duration(defaultTtl));
}

const OPTIONS = {
  off: ["Off", "Items do not expire."],
  noDefault: ["On (no default)", "Items expire only if they have a ttl of their own."],
  on: ["On", "Items expire this many seconds after their last write."],
};

/** Radio buttons for the setting; `onchange` is called after each change by the user. */
export class TtlChoice {
  #radios;
  #meaning = h("span", { class: "muted" });
  #seconds;
  #onchange;

  constructor(defaultTtl, onchange = () => {}) {
    this.#onchange = onchange;
    const selected = defaultTtl === null ? "off" : defaultTtl === -1 ? "noDefault" : "on";
    this.#seconds = textInput({
      inputmode: "numeric",
      class: "number-input",
      "aria-label": "Seconds",
      value: selected === "on" ? String(defaultTtl) : "",
      oninput: () => this.#changed(),
    });
    const group = newId("ttl");
    this.#radios = Object.fromEntries(Object.keys(OPTIONS).map((name) => [name, h("input", {
      type: "radio", name: group, value: name, checked: name === selected, onchange: () => this.#select(name),
    })]));
    this.node = h("div", { class: "choices", role: "radiogroup", "aria-label": "Time to Live" },
      Object.entries(OPTIONS).map(([name, [label, text]]) => h("div", { class: "choice" },
        h("label", {}, this.#radios[name], h("span", {}, h("b", {}, label), h("small", {}, text))),
        name === "on" && h("div", { class: "choice-details" }, this.#seconds, h("span", {}, "second(s)"), this.#meaning))));
    this.#update();
  }

  /** Undefined for off, -1 for no default, or what was typed: the server validates it. */
  get value() {
    if (this.#radios.off.checked) return undefined;
    if (this.#radios.noDefault.checked) return -1;
    const typed = this.#seconds.value.trim();
    return typed === "" || Number.isNaN(Number(typed)) ? typed : Number(typed);
  }

  #select(name) {
    if (name === "on" && this.#seconds.value === "") this.#seconds.value = "86400";
    this.#changed();
    if (name === "on") this.#seconds.select();
  }

  #changed() {
    this.#update();
    this.#onchange();
  }

  #update() {
    const isOn = this.#radios.on.checked;
    const seconds = Number(this.#seconds.value);
    this.#meaning.textContent = isOn && Number.isInteger(seconds) && seconds >= 60 ? `= ${duration(seconds)}` : "";
    this.#seconds.disabled = !isOn;
  }
}
