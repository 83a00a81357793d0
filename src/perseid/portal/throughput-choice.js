// The choice between manual and autoscale throughput and, where it is possible, no own throughput.

import { h, newId } from "./elements.js";

/** {node, value: {} | {manual} | {autoscale}}; `none` is the label of the choice without throughput. */
export function throughputChoice({ none = null, manual = null, autoscale = null } = {}) {
  const group = newId("throughput");
  const options = {
    ...(none && { none: { label: none } }),
    manual: { label: "Manual", unit: "RU/s", input: numberInput("Request units per second", manual ?? 400) },
    autoscale: { label: "Autoscale", unit: "RU/s maximum", input: numberInput("Maximum request units per second", autoscale ?? 1000) },
  };
  const selected = autoscale ? "autoscale" : manual || !none ? "manual" : "none";
  const update = () => {
    for (const { radio, input } of Object.values(options)) if (input) input.disabled = !radio.checked;
  };
  for (const [name, option] of Object.entries(options)) {
    option.radio = h("input", { type: "radio", name: group, value: name, checked: name === selected, onchange: update });
  }
  const node = h("div", { class: "choices", role: "radiogroup", "aria-label": "Throughput" },
    Object.values(options).map(({ label, unit, input, radio }) => h("div", { class: "choice" },
      h("label", {}, radio, h("span", {}, h("b", {}, label))),
      input && h("div", { class: "choice-details" }, input, h("span", {}, unit)))));
  update();
  return {
    node,
    get value() {
      const name = ["manual", "autoscale"].find((each) => options[each].radio.checked);
      return name ? { [name]: Number(options[name].input.value) } : {};
    },
  };
}

/** The server validates the number, so that its message is shown. */
function numberInput(label, value) {
  return h("input", { type: "number", class: "number-input", "aria-label": label, value: String(value), step: "any", required: true });
}
