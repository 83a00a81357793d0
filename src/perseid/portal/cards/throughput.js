// The card that shows and changes the throughput of a container or database.

import * as api from "../api.js";
import { toast } from "../dialogs.js";
import { card, form, h, savesChanges, submitButton } from "../elements.js";
import { throughputChoice } from "../throughput-choice.js";

/** {node, isChanged()}; `onsaved` is called after a save. */
export function throughputCard(offer, title, onsaved) {
  const { offerAutopilotSettings: autopilot, offerThroughput } = offer.content;
  const choice = throughputChoice({ manual: autopilot ? null : offerThroughput, autoscale: autopilot?.maxThroughput ?? null });
  const original = JSON.stringify(choice.value);
  const isChanged = () => JSON.stringify(choice.value) !== original;
  const node = card(title, savesChanges(form(async () => {
    try {
      await api.changeOffer(offer, choice.value);
    } catch (error) {
      // The mode may have changed already; the next attempt starts from there.
      offer = (await api.readOffer(offer.offerResourceId).catch(() => null)) ?? offer;
      throw error;
    }
    await onsaved();
    toast("Throughput saved");
  }, choice.node, h("footer", {}, submitButton("Save"))), isChanged));
  return { node, isChanged };
}
