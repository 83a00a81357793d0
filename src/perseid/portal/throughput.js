// Throughput: manual, autoscale, and, where there is a choice, none of one's own.

import { h, newId } from "./dom.js";

/** {node, value: {} | {manual} | {autoscale}}; `none` is the text of the choice to have none. */
export function throughputChoice({ none = null, manual = null, autoscale = null } = {}) {
  const group = newId("throughput");
  const kinds = {
    ...(none && { none: [none, null] }),
    manual: ["Manual", numberBox("Request units per second", manual ?? 400)],
    autoscale: ["Autoscale", numberBox("At most, request units per second", autoscale ?? 1000)],
  };
  const start = autoscale ? "autoscale" : manual || !none ? "manual" : "none";
  const radios = {};
  const update = () => {
    for (const [name, [, box]] of Object.entries(kinds)) if (box) box.disabled = !radios[name].checked;
  };
  const node = h("div", { class: "choices", role: "radiogroup", "aria-label": "Throughput" },
    Object.entries(kinds).map(([name, [label, box]]) => {
      radios[name] = h("input", { type: "radio", name: group, value: name, checked: name === start, onchange: update });
      return h("div", { class: "choice" },
        h("label", {}, radios[name], h("span", {}, h("b", {}, label))),
        box && h("div", { class: "choice-more" }, box, h("span", {}, name === "manual" ? "RU/s" : "RU/s at most")));
    }));
  update();
  return {
    node,
    get value() {
      if (radios.manual.checked) return { manual: Number(kinds.manual[1].value) };
      if (radios.autoscale.checked) return { autoscale: Number(kinds.autoscale[1].value) };
      return {};
    },
  };
}

/** Which figures are allowed is for the server to say, in its own words. */
function numberBox(label, value) {
  return h("input", { type: "number", class: "seconds", "aria-label": label, value: String(value), step: "any", required: true });
}
