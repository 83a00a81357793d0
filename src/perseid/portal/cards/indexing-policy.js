// The card that shows and changes the indexing policy of a container, as JSON.

import * as api from "../api.js";
import { CodeEditor } from "../code-editor.js";
import { toast } from "../dialogs.js";
import { button, card, form, h, savesChanges, submitButton } from "../elements.js";
import { jsonSpans } from "../highlight.js";
import { isSameText, jsonError } from "../json.js";

/** {node, isChanged()}; `onsaved` is called after a save. */
export function indexingPolicyCard({ database, container }, definition, onsaved) {
  const original = JSON.stringify(definition.indexingPolicy, null, 2);
  const editor = new CodeEditor(jsonSpans, { label: "Indexing policy as JSON", value: original, rows: 14 });
  const reset = button("Reset", () => (editor.value = original), { kind: "quiet" });
  const isChanged = () => !isSameText(editor.value, original);
  const node = card("Indexing policy", savesChanges(form(async () => {
    const invalid = jsonError(editor.value);
    if (invalid) {
      editor.mark(invalid.at);
      throw new Error(`Invalid JSON: ${invalid.reason} (line ${invalid.line}).`);
    }
    await api.changeContainer(database, container, { indexingPolicy: JSON.parse(editor.value) }, { loaded: definition });
    await onsaved();
    toast("Indexing policy saved");
  }, editor.node, h("footer", {}, reset, submitButton("Save"))), isChanged));
  return { node, isChanged };
}
