// Dialogs of the query page: the history, and the saved queries.

import { confirm, dialog, toast } from "./dialogs.js";
import { button, field, fill, form, h, submitButton, textInput } from "./elements.js";
import { dateTime, plural, truncated } from "./formats.js";

const MAX_PREVIEW = 400; // characters
const NOT_STORED = "The browser does not store it: its storage is full or switched off. It is kept until you leave this page.";

const preview = (query) => h("code", { class: "query-preview" }, truncated(query.trim(), MAX_PREVIEW));

/** The parameters and the partition key of an entry, as a short text. */
function optionsText({ parameters, partitionKey }) {
  const values = Object.entries(parameters).map(([name, value]) => `${name} = ${truncated(value, 40)}`);
  return [...values, ...(partitionKey ? [`partition ${truncated(partitionKey, 40)}`] : [])].join(", ");
}

/** The history; resolves to the entry that the user chooses, or to undefined. */
export function chooseFromHistory(history) {
  return dialog("Query history", (close) => {
    const { entries } = history;
    if (!entries.length) return h("p", { class: "muted" }, "No queries yet. Queries that you run in this container are listed here.");
    return [
      h("p", { class: "hint" }, "Choose a query to put it into the editor. This browser keeps the last 50 queries of each container."),
      h("ul", { class: "query-list" }, entries.map((entry) => h("li", {},
        h("button", { type: "button", class: "query-entry", onclick: () => close(entry) },
          preview(entry.query),
          h("small", {}, [dateTime(entry.at), plural(entry.rows, "row") + (entry.hasMore ? " so far" : ""), `${entry.charge.toFixed(2)} RU`, optionsText(entry)].filter(Boolean).join(" · ")))))),
      h("footer", {}, button("Clear history", async () => {
        const isSure = await confirm("Clear the history?", `${plural(entries.length, "query").replace("querys", "queries")} of this container will be removed from this browser.`, { yes: "Clear history" });
        if (!isSure) return;
        history.clear();
        close();
      }, { kind: "danger quiet" })),
    ];
  }, { isWide: true });
}

/** The saved queries; resolves to the entry that the user opens, or to undefined. */
export function chooseSaved(saved) {
  return dialog("Saved queries", (close) => {
    const body = h("div", { class: "stack" });
    const draw = () => {
      const { entries } = saved;
      if (!entries.length) return fill(body, h("p", { class: "muted" }, "No saved queries. Save keeps the query of the editor under a name, in this browser."));
      fill(body, h("ul", { class: "query-list" }, entries.map((entry) => h("li", {},
        h("button", { type: "button", class: "query-entry", onclick: () => close(entry) },
          h("b", {}, h("span", { class: "visually-hidden" }, "Open "), entry.name), preview(entry.query), optionsText(entry) && h("small", {}, optionsText(entry))),
        h("div", { class: "row" },
          button("Rename", () => renameSaved(saved, entry.name).then(draw), { kind: "small", "aria-label": `Rename ${entry.name}` }),
          button("Delete", async () => {
            if (await confirm("Delete this saved query?", h("p", {}, h("b", {}, entry.name), " will be removed from this browser."))) saved.delete(entry.name);
            draw();
            body.querySelector("button")?.focus();
          }, { kind: "small danger quiet", "aria-label": `Delete ${entry.name}` }))))));
    };
    draw();
    return body;
  }, { isWide: true });
}

/** Asks for a name and saves the content under it; resolves to the name, or to undefined. */
export function saveQuery(saved, content, name) {
  return askForName("Save query", name, async (newName) => {
    if (saved.has(newName) && !(await confirmOverwrite(newName))) return false;
    report(saved.save({ ...content, name: newName }), `Saved as “${newName}”`);
    return true;
  });
}

function renameSaved(saved, name) {
  return askForName("Rename query", name, async (newName) => {
    if (newName === name) return true;
    if (saved.has(newName) && !(await confirmOverwrite(newName))) return false;
    report(saved.rename(name, newName), `Renamed to “${newName}”`);
    return true;
  });
}

const confirmOverwrite = (name) =>
  confirm("Overwrite?", h("p", {}, "A query is already saved as ", h("b", {}, name), ". Replace it?"), { yes: "Overwrite" });

function report(isStored, text) {
  if (isStored) toast(text);
  else toast(NOT_STORED, { kind: "bad" });
}

/** `accept(name)` says whether the name was used. */
function askForName(title, value, accept) {
  return dialog(title, (close) => {
    const input = textInput({ value: value ?? "", autofocus: true, maxlength: "100" });
    return form(async () => {
      const name = input.value.trim();
      if (!name) throw new Error("Enter a name.");
      if (await accept(name)) close(name);
    }, field("Name", input, "It is stored in this browser, for this container."),
    h("footer", {}, button("Cancel", () => close()), submitButton("Save")));
  });
}
