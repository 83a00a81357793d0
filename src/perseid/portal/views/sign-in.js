// Asks for the account key, once for each tab.

import * as api from "../api.js";
import { dialog } from "../dialogs.js";
import { button, field, form, h, submitButton } from "../elements.js";

// The public key of the emulators; it protects nothing.
const EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

export function signInPage(onsignedin, message) {
  return h("main", { class: "sign-in" },
    h("img", { src: "meteor.svg", alt: "", width: "44", height: "44" }),
    h("h1", {}, "Perseid"),
    h("p", { class: "muted" }, location.host),
    keyForm(onsignedin, message));
}

/** Asks for another key over a page with unsaved text; resolves to true after signing in. */
export function signInAgain(message) {
  return dialog("Sign in again", (close) => [
    h("p", {}, "Your unsaved text is kept."),
    keyForm(() => close(true), message),
  ]);
}

function keyForm(onsignedin, message) {
  const key = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, autofocus: true });
  const node = form(async () => {
    await api.signIn(extractKey(key.value));
    onsignedin();
  },
  field("Account key", key, "A base64 key or a connection string. It stays in this tab and signs requests; it is never sent."),
  h("footer", {},
    button("Use the emulator key", () => {
      key.value = EMULATOR_KEY;
      node.requestSubmit();
    }),
    submitButton("Sign in")));
  const error = node.querySelector(".problem");
  error.textContent = message;
  error.hidden = !message;
  return node;
}

function extractKey(text) {
  return (/AccountKey=([^;]+)/i.exec(text)?.[1] ?? text).trim();
}
