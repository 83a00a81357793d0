// The card for the expiry guard and the purge hold of a container.

import * as api from "../api.js";
import { toast } from "../dialogs.js";
import { card, field, form, h, savesChanges, submitButton, textInput } from "../elements.js";

/** {node, isChanged()}. */
export function ttlSafetyCard({ database, container }, status) {
  const guard = textInput({ class: "number-input", placeholder: "10%", value: status.guard ?? "" });
  const hold = h("input", { type: "number", min: "0", class: "number-input", value: String(status.purgeHoldSeconds), required: true });
  const typed = () => ({ guard: guard.value.trim() || null, purgeHoldSeconds: Number(hold.value) });
  let saved = JSON.stringify(typed());
  const isChanged = () => JSON.stringify(typed()) !== saved;
  const node = card("Safety", savesChanges(form(async () => {
    const body = typed();
    await api.admin("PUT", api.ttl(database, container), { body });
    saved = JSON.stringify(body);
    toast("Safety settings saved");
  },
  field("Expiry guard", guard, "A change that would expire more items than this immediately needs a confirmation. Enter a number of items or a percentage like 10%. Empty: the server's setting."),
  field("Purge hold (seconds)", hold, "Expired items stay on disk for this long, so that an undo can restore them."),
  h("footer", {}, submitButton("Save"))), isChanged));
  return { node, isChanged };
}
