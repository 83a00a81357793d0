// Time to Live: Off, On (no default), On with a number of seconds. (T-205)

import { h, newId } from "./dom.js";
import { span } from "./lifetime.js";

const TEXTS = {
  off: ["Off", "Items are not deleted automatically."],
  none: ["On (no default)", "Items end only if they set a ttl of their own."],
  on: ["On", "Items end this many seconds after their last change."],
};

/** {node, value}; the value is undefined for off, -1, or what was typed: the server judges it. */
export function ttlChoice(defaultTtl, onchange = () => {}) {
  const group = newId("ttl");
  const start = defaultTtl === null ? "off" : defaultTtl === -1 ? "none" : "on";
  const seconds = h("input", {
    type: "text",
    inputmode: "numeric",
    class: "seconds",
    "aria-label": "Seconds",
    autocomplete: "off",
    value: start === "on" ? String(defaultTtl) : "",
  });
  const means = h("span", { class: "means" });
  const radios = {};
  const explain = () => {
    const typed = Number(seconds.value);
    means.textContent = radios.on.checked && Number.isInteger(typed) && typed >= 60 ? `= ${span(typed)}` : "";
    seconds.disabled = !radios.on.checked;
  };
  const changed = () => {
    explain();
    onchange();
  };
  const node = h("div", { class: "choices", role: "radiogroup", "aria-label": "Time to Live" },
    Object.entries(TEXTS).map(([name, [label, text]]) => {
      const radio = h("input", { type: "radio", name: group, value: name, checked: name === start, onchange: () => {
        if (name === "on" && seconds.value === "") seconds.value = "86400";
        changed();
        if (name === "on") seconds.select();
      } });
      radios[name] = radio;
      return h("div", { class: "choice" },
        h("label", {}, radio, h("span", {}, h("b", {}, label), h("small", {}, text))),
        name === "on" && h("div", { class: "choice-more" }, seconds, h("span", {}, "second(s)"), means));
    }));
  seconds.addEventListener("input", changed);
  explain();
  return {
    node,
    get value() {
      if (radios.off.checked) return undefined;
      if (radios.none.checked) return -1;
      const typed = seconds.value.trim();
      const number = Number(typed);
      return typed === "" || Number.isNaN(number) ? typed : number;
    },
  };
}
