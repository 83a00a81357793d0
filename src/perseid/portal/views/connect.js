// Asks for the key, once for the tab.

import * as api from "../api.js";
import { button, dialog, field, form, h } from "../dom.js";

// What every emulator uses; it protects nothing.
const WELL_KNOWN = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/** The page of somebody who is not signed in. */
export function connectView(done, problem) {
  return h("main", { class: "connect" },
    h("img", { src: "meteor.svg", alt: "", width: "44", height: "44" }),
    h("h1", {}, "Perseid"),
    h("p", { class: "muted" }, location.host),
    keyForm(done, problem));
}

/** Asks for another key over a page that holds unsaved text; resolves to whether there is one. */
export function reconnect(problem) {
  return dialog("Sign in again", (close) => [
    h("p", {}, "What you have typed here stays as it is."),
    keyForm(() => close(true), problem),
  ]);
}

function keyForm(done, problem) {
  const key = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, autofocus: true });
  const node = form(async () => {
    await api.signIn(keyIn(key.value));
    done();
  },
  field("Account key", key, "Base64, or a whole connection string. It stays in this tab and is used to sign requests; it is never sent."),
  h("footer", {},
    button("Use the emulator's key", () => {
      key.value = WELL_KNOWN;
      node.requestSubmit();
    }),
    button("Connect", null, { kind: "primary", type: "submit" })));
  const note = node.querySelector(".problem");
  note.textContent = problem;
  note.hidden = !problem;
  return node;
}

function keyIn(text) {
  return (/AccountKey=([^;]+)/i.exec(text)?.[1] ?? text).trim();
}
