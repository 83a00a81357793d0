// The dialogs that create and delete databases and containers.

import * as api from "./api.js";
import { button, confirm, dialog, field, form, h, toast } from "./dom.js";
import { throughputChoice } from "./throughput.js";
import { ttlChoice } from "./ttl-choice.js";

const changed = () => document.dispatchEvent(new Event("catalog"));
const nameInput = () => h("input", { type: "text", required: true, maxlength: 255, autocomplete: "off", spellcheck: "false", autofocus: true });

/** Resolves to the new database's name, or to undefined. */
export function newDatabase() {
  return dialog("New database", (close) => {
    const name = nameInput();
    const throughput = throughputChoice({ none: "Each container has its own" });
    return form(async () => {
      await api.call("POST", ["dbs"], { body: { id: name.value }, headers: api.throughputHeaders(throughput.value) });
      changed();
      toast(`Database ${name.value} created`);
      close(name.value);
    },
    field("Name", name),
    h("fieldset", {}, h("legend", {}, "Shared throughput"), throughput.node),
    h("footer", {}, button("Cancel", () => close()), button("Create", null, { kind: "primary", type: "submit" })));
  });
}

/** Resolves to the new container's name, or to undefined. */
export function newContainer(database) {
  return dialog(`New container in ${database}`, (close) => {
    const name = nameInput();
    const key = h("input", { type: "text", required: true, value: "/id", spellcheck: "false", autocomplete: "off" });
    const unique = h("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: "/email" });
    const ttl = ttlChoice(null);
    const throughput = throughputChoice({ none: "Whatever the server gives" });
    return form(async () => {
      const paths = checked(listed(key.value));
      const body = {
        id: name.value,
        partitionKey: { paths, kind: paths.length > 1 ? "MultiHash" : "Hash", version: 2 },
      };
      if (ttl.value !== undefined) body.defaultTtl = ttl.value;
      const constraints = unique.value.split(";").map(listed).map(checked).filter((each) => each.length);
      if (constraints.length) body.uniqueKeyPolicy = { uniqueKeys: constraints.map((each) => ({ paths: each })) };
      await api.call("POST", [...api.database(database), "colls"], { body, headers: api.throughputHeaders(throughput.value) });
      changed();
      toast(`Container ${name.value} created`);
      close(name.value);
    },
    field("Name", name),
    field("Partition key", key, "A path like /userId; for a hierarchical key up to three, separated by commas."),
    h("fieldset", {}, h("legend", {}, "Time to Live"), ttl.node),
    h("details", {}, h("summary", {}, "Throughput and unique keys"),
      h("fieldset", {}, h("legend", {}, "Throughput"), throughput.node),
      field("Unique keys", unique, "Paths separated by commas belong together; a semicolon starts the next key.")),
    h("footer", {}, button("Cancel", () => close()), button("Create", null, { kind: "primary", type: "submit" })));
  });
}

function checked(paths) {
  const wrong = paths.find((path) => !path.startsWith("/"));
  if (wrong) throw new Error(`A path must begin with /, as in /${wrong}`);
  return paths;
}

const listed = (text) => text.split(",").map((path) => path.trim()).filter(Boolean);

/** Resolves to whether it was deleted. */
export async function deleteDatabase(database) {
  return remove(`Delete database ${database}?`, "All its containers and their items are deleted. This cannot be undone.", database, api.database(database));
}

export async function deleteContainer(database, container) {
  return remove(`Delete container ${container}?`, "All its items are deleted. This cannot be undone.", container, api.container(database, container));
}

async function remove(title, text, name, path) {
  if (!(await confirm(title, text, { type: name }))) return false;
  try {
    await api.call("DELETE", path);
  } catch (error) {
    if (error.status !== 404) {
      toast(error.message, { kind: "bad" });
      return false;
    }
  }
  changed();
  toast(`${name} deleted`);
  return true;
}
