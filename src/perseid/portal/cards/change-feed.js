// The card that sets for how long the change feed keeps all versions of a container.

import * as api from "../api.js";
import { toast } from "../dialogs.js";
import { card, field, form, h, savesChanges, submitButton } from "../elements.js";
import { link } from "../routes.js";

/** {node, isChanged()}; `onsaved` is called after a save. */
export function changeFeedCard(route, definition, onsaved) {
  const { database, container } = route;
  const original = String(definition.changeFeedPolicy?.retentionDuration ?? "");
  const minutes = h("input", { type: "number", min: "0", step: "1", class: "number-input", value: original === "0" ? "" : original, placeholder: "off" });
  const saved = minutes.value;
  const isChanged = () => minutes.value !== saved;
  const node = card("Change feed", savesChanges(form(async () => {
    const changeFeedPolicy = { retentionDuration: Number(minutes.value || 0) };
    await api.changeContainer(database, container, { changeFeedPolicy }, { loaded: definition });
    await onsaved();
    toast("Change feed setting saved");
  },
  field("Keep all versions and deletes (minutes)", minutes, "Empty: only the latest versions are kept. Turning it off removes the recorded changes."),
  h("footer", { class: "start" }, h("a", { href: link({ database, container, tab: "changes", options: { versions: "all" } }) }, "Show all versions"), h("div", { class: "grow" }), submitButton("Save"))), isChanged));
  return { node, isChanged };
}
