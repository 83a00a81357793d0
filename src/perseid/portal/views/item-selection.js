// Deletes the selected items, each in the version that the list shows.

import * as api from "../api.js";
import { confirm, dialog, toast } from "../dialogs.js";
import { button, h } from "../elements.js";
import { number, plural } from "../formats.js";
import { keyJson } from "../partition-key.js";

const AT_ONCE = 6; // requests
const MAX_LISTED = 100;

/**
 * Asks, and deletes the items of `rows`, {item, key}. Items that another client has changed since
 * stay, unless the user wants them deleted, too. Resolves to whether anything was deleted.
 */
export async function deleteItems(route, rows) {
  const title = `Delete ${plural(rows.length, "item")}?`;
  if (!(await confirm(title, "This cannot be undone.", { yes: `Delete ${plural(rows.length, "item")}` }))) return false;
  let failed = await deleteEach(route, rows, true);
  let deleted = rows.length - failed.length;
  const changed = failed.filter(({ error }) => error.status === 412).map(({ row }) => row);
  if (failed.length && (await showFailures(deleted, failed, changed.length))) {
    failed = [...failed.filter(({ error }) => error.status !== 412), ...(await deleteEach(route, changed, false))];
    deleted = rows.length - failed.length;
    if (failed.length) await showFailures(deleted, failed, 0);
  }
  if (deleted) toast(`${plural(deleted, "item")} deleted`);
  return deleted > 0;
}

/** Resolves to the failures, [{row, error}]. An item that no longer exists counts as deleted. */
async function deleteEach({ database, container }, rows, isConditional) {
  const failed = [];
  const waiting = [...rows];
  const work = async () => {
    for (let row = waiting.shift(); row; row = waiting.shift()) {
      const condition = isConditional ? { "if-match": row.item._etag } : {};
      try {
        await api.call("DELETE", api.itemPath(database, container, row.item), { headers: { ...api.partitionKeyHeader(keyJson(row.key)), ...condition } });
      } catch (error) {
        if (error.status !== 404) failed.push({ row, error });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failed;
}

const reason = ({ status, message }) => (status === 412 ? "Another client has changed it since the list was loaded." : message);

/** Resolves to true if the changed items are to be deleted, too. */
function showFailures(deleted, failed, changed) {
  const omitted = failed.length - MAX_LISTED;
  return dialog(`${plural(failed.length, "item")} not deleted`, (close) => [
    h("p", {}, `${plural(deleted, "item")} deleted.`),
    h("ul", { class: "failures" }, failed.slice(0, MAX_LISTED).map(({ row, error }) => h("li", {}, h("code", {}, row.item.id), ` ${reason(error)}`))),
    omitted > 0 && h("p", { class: "hint" }, `${number(omitted)} more are not listed.`),
    h("footer", {},
      changed > 0 && button(`Delete ${plural(changed, "changed item")}`, () => close(true), { kind: "danger" }),
      button("Close", () => close(false), { kind: "primary", autofocus: true })),
  ]);
}
