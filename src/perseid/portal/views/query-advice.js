// Says in plain words why a query is slow or fast, and what to do about it.

import { h } from "../elements.js";
import { number, plural } from "../formats.js";
import { keyPaths } from "../partition-key.js";
import { callsIn, firstPathIn, stepText, tokensOf } from "../query-language.js";
import { link } from "../routes.js";

const MANY_TIMES = 10; // examined items for each row, from which on an access is called wasteful
const FEW_ITEMS = 1_000; // reading so many takes no time worth mentioning
const SLOWER_BY = 50; // milliseconds that creating an index takes at least, to be mentioned

const COUNTED = /└─ (?:Count$|Group counts)/m; // a line of the plan

const codes = (texts) => texts.flatMap((text, index) => [index ? ", " : "", h("code", {}, text)]);
const paths = (candidates) => codes(candidates.map((path) => path.replace(/\/\?$/, "")));

const CHANGES_CASE = ["LOWER", "UPPER"];
const SEARCHES = ["CONTAINS", "STARTSWITH", "ENDSWITH"];
const MATCHES = ["STRINGEQUALS", ...SEARCHES]; // a third argument that is true ignores case
const NUMERIC = ["ROUND", "FLOOR", "CEILING", "TRUNC", "INTADD", "INTSUB", "INTMUL", "INTDIV", "NUMBERBIN"];
const BEGINNINGS = ["LEFT", "SUBSTRING"];

/** A copy of the property in lower case, which the database can compare. */
function lowerCaseRemedy(term, call) {
  const path = firstPathIn(call.parts.join(", "));
  const name = path?.steps.at(-1);
  const search = callsIn(term).find((each) => SEARCHES.includes(each.name))?.name;
  const note = ["CONTAINS", "ENDSWITH"].includes(search) ? " The database checks that by itself, but no index serves CONTAINS or ENDSWITH: every item is still examined." : "";
  if (!name) return ["Store a lower-case copy of the property in each item, and compare that with a lower-case value.", note];
  const copy = path.parent + stepText(`${name}Lower`);
  const condition = (property) => h("code", {}, search ? `${search}(${property}, …)` : `${property} = …`);
  return ["Store a lower-case copy in each item, for example ", h("code", {}, copy), ", and compare that with a lower-case value: ", condition(copy), ". ",
    condition(path.text), " finds only this exact spelling.", note];
}

/** What to write instead of a term that is evaluated in Python. */
function remedyOf(term) {
  const calls = callsIn(term);
  const calling = (names) => calls.find(({ name }) => names.includes(name));
  const matching = calls.find(({ name, parts }) => MATCHES.includes(name) && parts.length > 2);
  const isExact = matching && /^false$/i.test(matching.parts[2]);
  const ignoringCase = calling(CHANGES_CASE) ?? (isExact ? null : matching);
  if (ignoringCase) return lowerCaseRemedy(term, ignoringCase);
  if (isExact) return ["Leave out the argument ", h("code", {}, "false"), ": then the database can check the term."];
  const instead = (good, bad) => ["Compare the property itself with a value instead, for example ", h("code", {}, good), " instead of ", h("code", {}, bad), "."];
  if (calling(BEGINNINGS)) return instead("STARTSWITH(c.code, 'abc')", "LEFT(c.code, 3) = 'abc'");
  const isComputed = tokensOf(term).some(({ kind, text }) => kind === "symbol" && "+-*/%".includes(text));
  if (isComputed || calling(NUMERIC)) return instead("c.total >= 150 AND c.total < 250", "ROUND(c.total / 100) = 2");
  return ["Compare the property itself with a value instead; if that is not possible, store the computed value in the item and compare that."];
}

/** What the terms that are evaluated in Python mean for the query. */
function evaluatedText({ evaluated }) {
  const remedies = new Map(evaluated.map(remedyOf).map((remedy) => [h("span", {}, remedy).textContent, remedy])); // each text once
  return ["The database cannot check ", ...codes(evaluated), `: ${evaluated.length === 1 ? "it is" : "they are"} computed for each item. `,
    ...[...remedies.values()].flatMap((remedy, index) => [index ? " " : "", ...remedy])];
}

/** What an index can serve. */
const servedTerms = () => ["An index can serve ", ...codes(["=", "IN", "<", ">", "BETWEEN", "STARTSWITH", "LIKE 'abc%'"]), " and a property in ", h("code", {}, "ORDER BY"), "; it cannot serve ", ...codes(["CONTAINS", "ENDSWITH", "!=", "NOT"]), " or computed values."];

/** What `text` says of the partition key, given its paths in brackets; nothing if the container has none, or it is unknown. */
function keyText(definition, text) {
  const found = definition ? keyPaths(definition.partitionKey) : [];
  return found.length ? text(["(", ...codes(found), ")"]) : [];
}

/** The reason of a scan and the remedy, by the server's word for the obstacle. */
const SCANS = {
  filter: ({ tree }) => (COUNTED.test(tree)
    ? ["The database counts the items by itself and loads none of them.", null]
    : ["The query has no WHERE, so it reads every item.", ["Add a condition, or ", h("code", {}, "TOP 100"), ", if you do not need all items."]]),
  small: () => [
    "An index would not help here: the container has fewer than 500 items, and reading all of them is as fast.",
    ["Nothing to do. An index is created on demand when the container grows."]],
  terms: (plan, route, definition) => [
    "No term of WHERE can use an index, so every item is examined.",
    [...(plan.evaluated.length ? evaluatedText(plan) : servedTerms()), ...keyText(definition, (key) => [" The partition key ", key, " in Options helps, too."])]],
  policy: (plan, route) => [
    ["The indexing policy excludes ", ...paths(plan.candidates), ", so every item is examined."],
    ["Include the path in the ", h("a", { href: link({ ...route, tab: "settings", rest: [] }) }, "indexing policy"), "; the next query creates the index."]],
  missing: (plan) => [
    ["There is no index on ", ...paths(plan.candidates), " yet, so every item is examined."],
    ["Run the query again: the first query that needs an index creates it. If that does not help, 24 other indexes of this container are in use, or the disk is full."]],
};

/** [what happens, what to do or null, whether it is slow] for an access with an index or a key. */
function found(plan, definition) {
  const { access, index, examined, returned, evaluated } = plan;
  const isWasteful = examined > FEW_ITEMS && examined > MANY_TIMES * Math.max(1, returned);
  const path = h("code", {}, index?.replace(/\/\?$/, "") ?? "");
  const what = {
    key: ["The query reads one partition and no other items."],
    index: ["The index on ", path, " finds the items."],
    order: ["The index on ", path, " gives the items in the right order, and the query stops when the page is full."],
  }[access];
  if (!isWasteful) return [what, null, false];
  if (evaluated.length) return [what, evaluatedText(plan), true];
  if (access === "key") return [what, ["All items of the partition are examined. Smaller partitions, or the id in WHERE, make it faster."], true];
  return [what, ["Many items match the index and few match the whole query. A more selective condition", ...keyText(definition, (key) => [", or the partition key ", key, " in Options,"]), " makes it faster."], true];
}

const isWastefulScan = ({ obstacle, examined, returned, tree }) =>
  obstacle !== "small" && examined > FEW_ITEMS && examined > MANY_TIMES * returned && !(obstacle === "filter" && COUNTED.test(tree));

/** A box with the verdict of a plan that was run. `definition` is the container's, or null if it is unknown. */
export function advice(plan, route, definition) {
  const { access, examined, returned, obstacle } = plan;
  const isScan = access === "scan";
  const [why, remedy, isWasteful] = isScan ? [...SCANS[obstacle](plan, route, definition), isWastefulScan(plan)] : found(plan, definition);
  const title = `${isScan ? "No index used" : "Good access"}: ${plural(examined, "item")} examined for ${plural(returned, "row")}`;
  return h("section", { class: `advice ${isWasteful ? "slow" : ""}`, "aria-label": "Advice" },
    h("h2", {}, isWasteful ? `Slow: ${number(examined)} items examined for ${plural(returned, "row")}` : title),
    h("p", {}, why, remedy && [" ", remedy]));
}

/**
 * A note if the run took much longer than the same query for its plan: the first query that needs
 * an index creates it. The server does not report that, so the times have to tell it.
 */
export function firstRunNote({ index, milliseconds }, runMilliseconds) {
  const isSlower = runMilliseconds - milliseconds > SLOWER_BY && runMilliseconds > MANY_TIMES * milliseconds;
  if (index === null || !isSlower) return "";
  const ms = (n) => `${number(Math.max(1, Math.round(n)))} ms`;
  return h("p", { class: "note" }, `The run took ${ms(runMilliseconds)} on the server, the same query for this plan ${ms(milliseconds)}. The first query that needs an index creates it; the next ones are faster.`);
}

/** How to read the plan and the ways to a faster query, for those who see one for the first time. */
export function planHelp() {
  return h("details", { class: "plan-help" }, h("summary", {}, "How do I make a query faster?"),
    h("ol", {},
      h("li", {}, "Compare “items examined” with “rows”. Many items for few rows is the usual reason for a slow query."),
      h("li", {}, "Read the plan from the bottom. ", ...codes(["Scan  all items"]), " examines every item; ", ...codes(["Index scan"]), " examines those that match one term; ", ...codes(["Scan  one partition key"]), " examines one partition."),
      h("li", {}, ...codes(["Filter (evaluated)"]), " lists terms that are computed for each item. Write them as a comparison of a property with a value, or store the computed value in the item."),
      h("li", {}, "Give a partition key in Options, or compare the partition key in WHERE: then only that partition is read."),
      h("li", {}, "Indexes are created on demand by the first query that needs one, if the indexing policy allows the path and the container has at least 500 items. That run takes longer than the next ones."),
      h("li", {}, "More: the section “Why is it slow?” of the page “Queries” in the documentation.")));
}
