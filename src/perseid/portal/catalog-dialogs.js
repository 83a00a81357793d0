// The dialogs that create and delete databases and containers.

import * as api from "./api.js";
import { confirm, dialog, errorToast, toast } from "./dialogs.js";
import { button, field, form, h, submitButton, textInput } from "./elements.js";
import { go } from "./routes.js";
import { throughputChoice } from "./throughput-choice.js";
import { TtlChoice } from "./ttl-setting.js";

const notifyViews = () => document.dispatchEvent(new Event("catalog"));
const nameInput = () => textInput({ required: true, maxlength: 255, autofocus: true });
const footer = (close) => h("footer", {}, button("Cancel", () => close()), submitButton("Create"));

/** Asks for the settings of a new database, creates it and opens its page. */
export async function createDatabase() {
  const database = await dialog("New database", (close) => {
    const name = nameInput();
    const throughput = throughputChoice({ none: "None: each container has its own" });
    return form(async () => {
      await api.call("POST", ["dbs"], { body: { id: name.value }, headers: api.throughputHeaders(throughput.value) });
      notifyViews();
      toast(`Database ${name.value} created`);
      close(name.value);
    },
    field("Name", name),
    h("fieldset", {}, h("legend", {}, "Shared throughput"), throughput.node),
    footer(close));
  });
  if (database) go({ database });
}

/** Asks for the settings of a new container, creates it and opens its page. */
export async function createContainer(database) {
  const container = await dialog(`New container in ${database}`, (close) => {
    const name = nameInput();
    const key = textInput({ required: true, value: "/id" });
    const unique = textInput({ placeholder: "/email" });
    const ttl = new TtlChoice(null);
    const throughput = throughputChoice({ none: "Default" });
    return form(async () => {
      const body = containerBody(name.value, key.value, unique.value, ttl.value);
      await api.call("POST", [...api.database(database), "colls"], { body, headers: api.throughputHeaders(throughput.value) });
      notifyViews();
      toast(`Container ${name.value} created`);
      close(name.value);
    },
    field("Name", name),
    field("Partition key", key, "A path like /userId. For a hierarchical key, up to three paths separated by commas."),
    h("fieldset", {}, h("legend", {}, "Time to Live"), ttl.node),
    h("details", {}, h("summary", {}, "Throughput and unique keys"),
      h("fieldset", {}, h("legend", {}, "Throughput"), throughput.node),
      field("Unique keys", unique, "Separate the paths of one key with commas, and keys with semicolons.")),
    footer(close));
  });
  if (container) go({ database, container });
}

function containerBody(id, key, unique, defaultTtl) {
  const paths = parsePaths(key);
  const body = { id, partitionKey: { paths, kind: paths.length > 1 ? "MultiHash" : "Hash", version: 2 } };
  if (defaultTtl !== undefined) body.defaultTtl = defaultTtl;
  const uniqueKeys = unique.split(";").map(parsePaths).filter((list) => list.length).map((list) => ({ paths: list }));
  if (uniqueKeys.length) body.uniqueKeyPolicy = { uniqueKeys };
  return body;
}

function parsePaths(text) {
  const paths = text.split(",").map((path) => path.trim()).filter(Boolean);
  const invalid = paths.find((path) => !path.startsWith("/"));
  if (invalid) throw new Error(`A path must begin with /, for example /${invalid}`);
  return paths;
}

/** Resolves to whether the database was deleted. */
export function deleteDatabase(database) {
  return confirmDelete("database", database, "All its containers and their items are deleted. This cannot be undone.", api.database(database));
}

/** Resolves to whether the container was deleted. */
export function deleteContainer(database, container) {
  return confirmDelete("container", container, "All its items are deleted. This cannot be undone.", api.container(database, container));
}

async function confirmDelete(kind, name, text, path) {
  if (!(await confirm(`Delete ${kind} ${name}?`, text, { typed: name }))) return false;
  try {
    await api.call("DELETE", path);
  } catch (error) {
    if (error.status !== 404) {
      errorToast(error);
      return false;
    }
  }
  notifyViews();
  toast(`${name} deleted`);
  return true;
}
