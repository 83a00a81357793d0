// The server as the views see it: signed requests in, answers or refusals out.

import { signer } from "./signing.js";

const PATIENCE = 9; // attempts after the first that a busy container refuses, as in the SDKs
const LONGEST_PAUSE = 3_000; // milliseconds
const STORED = "perseid.key"; // session storage: the key lives as long as the tab

/** An answer that says no, in the server's own words. */
export class Refusal extends Error {
  constructor(status, body) {
    super((status === 401 && unknownKey(body)) || readable(body) || `The server answered ${status}.`);
    this.status = status;
    this.body = body;
    this.findings = findings(body);
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

function findings(body) {
  const text = body?.message ?? "";
  const json = /^Message: (\{.*\})\r?\n/s.exec(text)?.[1];
  try {
    const found = JSON.parse(json);
    return found.errors ?? found.Errors.map((message) => ({ message }));
  } catch {
    return [];
  }
}

function readable(body) {
  const found = findings(body);
  if (found.length) return found.map((each) => each.message).join("\n");
  return (body?.message ?? "").replace(/\r?\nActivityId:.*$/s, "").replace(/^Message: /, "");
}

/** What a wrong key means; the protocol's text is for those who build signatures. */
function unknownKey(body) {
  if (/current time/.test(body?.message)) return null; // the key may be right, and the date is not
  return sign ? "The server does not accept this key." : "The server asks for a key. Sign in first.";
}

let sign = null; // null while nobody is signed in, and when the server asks for no signature
let isTrying = false; // a key is being tried: whoever entered it hears of a refusal
let skew = 0; // milliseconds that this machine's clock is behind the server's

/** Signs in with a base64 key; throws if it is none, or not this account's. */
export async function signIn(key) {
  let made;
  try {
    made = await signer(key);
  } catch {
    throw new Error("That is not a key: keys are base64, as in a connection string.");
  }
  const before = sign;
  sign = made;
  isTrying = true;
  try {
    await matchClocks();
    await call("GET", ["dbs"], { headers: { "x-ms-max-item-count": "1" } });
  } catch (error) {
    sign = before;
    throw error;
  } finally {
    isTrying = false;
  }
  sessionStorage.setItem(STORED, key);
}

export function signOut() {
  sign = null;
  sessionStorage.removeItem(STORED);
}

export const storedKey = () => sessionStorage.getItem(STORED);

/** Whether the server takes requests without a signature. */
export async function isOpen() {
  try {
    await call("GET", ["_perseid", "clock"]);
    return true;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

export const isSigned = () => sign !== null;

/** Signatures carry a date, and it is the server's that counts. */
async function matchClocks() {
  const answer = await call("GET", ["_perseid", "health"]);
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const difference = date - Date.now();
  skew = Math.abs(difference) > 60_000 ? difference : 0; // one that was measured before may be wrong by now
}

/**
 * One request; `names` are the parts of the path, unescaped.
 * Resolves to {status, headers, text, json}; rejects with a Refusal for 400 and above.
 */
export async function call(method, names, { body, headers = {}, search = "", signal, patience = PATIENCE } = {}) {
  // Browsers resolve these, escaped or not: the request would be for something else.
  const lost = names.find((name) => name === "." || name === "..");
  if (lost) throw new Error(`A browser cannot ask for the name “${lost}”: it would ask for something else. A program can.`);
  const sent = { "x-ms-version": "2020-07-15", ...headers };
  const signed = sign; // a late answer says nothing about a key that came after it
  if (sign) {
    const date = new Date(Date.now() + skew).toUTCString();
    const [kind, link] = signedFor(names);
    const text = `${method.toLowerCase()}\n${kind}\n${link}\n${date.toLowerCase()}\n\n`;
    const signature = await sign(text);
    sent["x-ms-date"] = date;
    sent.authorization = encodeURIComponent(`type=master&ver=1.0&sig=${signature}`);
  }
  if (body !== undefined && !sent["content-type"]) sent["content-type"] = "application/json";
  const content = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const path = `/${names.map(encodeURIComponent).join("/")}${search}`;
  let response, text;
  try {
    response = await fetch(path, { method, headers: sent, body: content, signal, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("The server does not answer. Is it still running?");
  }
  if (response.status === 429 && patience > 0) { // nothing was done; the server says when to come again
    await pause(Math.min(LONGEST_PAUSE, Number(response.headers.get("x-ms-retry-after-ms")) || 100));
    return call(method, names, { body, headers, search, signal, patience: patience - 1 });
  }
  if (response.status >= 400) {
    const refusal = new Refusal(response.status, parsed(text));
    // Without a key, who wants to write is asked for one; what the page reads by itself is not worth it.
    const isMissed = sign || (method !== "GET" && !headers["x-ms-documentdb-isquery"]);
    if (response.status === 401 && isMissed && sign === signed && !isTrying) {
      document.dispatchEvent(new CustomEvent("unauthorized", { detail: refusal }));
    }
    throw refusal;
  }
  return {
    status: response.status,
    headers: response.headers,
    text,
    get json() {
      return JSON.parse(text);
    },
  };
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text };
  }
}

function signedFor(names) {
  if (names[0] === "_perseid") return ["_perseid", names.join("/")];
  if (names[0] === "offers" && names.length === 2) return ["offers", names[1].toLowerCase()];
  if (names.length % 2 === 0) return [names.at(-2), names.join("/")];
  return [names.at(-1), names.slice(0, -1).join("/")];
}

// Databases and containers

export const database = (db) => ["dbs", db];
export const container = (db, coll) => ["dbs", db, "colls", coll];

/** All resources of a list, page after page. */
async function all(names, plural, signal) {
  const found = [];
  const headers = {};
  do {
    const page = await call("GET", names, { headers, signal });
    found.push(...page.json[plural]);
    headers["x-ms-continuation"] = page.headers.get("x-ms-continuation");
  } while (headers["x-ms-continuation"]);
  return found;
}

export const listDatabases = (signal) => all(["dbs"], "Databases", signal);
export const listContainers = (db, signal) =>
  all([...database(db), "colls"], "DocumentCollections", signal);

export async function readContainer(db, coll, signal) {
  return (await call("GET", container(db, coll), { signal })).json;
}

/** What a create asks for: {manual: n}, {autoscale: n} or nothing. */
export function throughputHeaders({ manual, autoscale } = {}) {
  if (manual !== undefined) return { "x-ms-offer-throughput": String(manual) };
  if (autoscale === undefined) return {};
  return { "x-ms-cosmos-offer-autopilot-settings": JSON.stringify({ maxThroughput: autoscale }) };
}

/**
 * Replaces a container with some properties changed and all others as they are now.
 * A property set to undefined is left out. `seen` is the container as the changes started from it,
 * if they would undo what somebody else has made of the same properties.
 */
export async function changeContainer(db, coll, changes, { confirmation, seen } = {}) {
  const current = await readContainer(db, coll);
  const isSame = (name) => JSON.stringify(current[name]) === JSON.stringify(seen[name]);
  if (seen && !Object.keys(changes).every(isSame)) {
    throw new Error("Somebody else has changed this since it was loaded here. Nothing is saved; load the page again to see what it is now.");
  }
  const body = { ...current, ...changes };
  for (const name of Object.keys(body)) if (name.startsWith("_")) delete body[name];
  const headers = { "if-match": current._etag };
  if (confirmation) headers["x-perseid-confirm"] = confirmation;
  return (await call("PUT", container(db, coll), { body, headers })).json;
}

// Offers

/** The offer of a database or container, by its resource id; null if it has none of its own. */
export async function readOffer(rid, signal) {
  const answer = await query(["offers"], {
    query: "SELECT * FROM o WHERE o.offerResourceId = @rid",
    parameters: [{ name: "@rid", value: rid }],
  }, {}, signal);
  return answer.json.Offers[0] ?? null;
}

/** Sets manual throughput or an autoscale maximum; a change of the mode takes a step of its own. */
export async function changeOffer(offer, { manual, autoscale }) {
  const put = async (body, headers = {}) =>
    (await call("PUT", ["offers", offer.id], {
      body,
      headers: { "if-match": body._etag, ...headers },
    })).json;
  const wasAutoscale = Boolean(offer.content.offerAutopilotSettings);
  const isAutoscale = autoscale !== undefined;
  let current = offer;
  if (isAutoscale && !wasAutoscale) {
    current = await put(current, { "x-ms-cosmos-migrate-offer-to-autopilot": "true" });
  } else if (!isAutoscale && wasAutoscale) {
    current = await put(current, { "x-ms-cosmos-migrate-offer-to-manual-throughput": "true" });
  }
  const content = { ...current.content };
  if (isAutoscale) {
    content.offerAutopilotSettings = { ...content.offerAutopilotSettings, maxThroughput: autoscale };
  } else {
    content.offerThroughput = manual;
  }
  try {
    return await put({ ...current, content });
  } catch (error) {
    if (current !== offer) error.message += `\nOnly the mode was changed, to ${isAutoscale ? "autoscale" : "manual"}.`;
    throw error;
  }
}

// Items and queries

/** JSON for a header: in visible ASCII. */
export function headerJson(text) {
  return text.replace(/[^\x20-\x7e]/g, (char) =>
    `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The path of an item. Browsers would resolve the ids . and .. so those go by resource id. */
export function itemPath(db, coll, item) {
  const name = item.id === "." || item.id === ".." ? item._rid : item.id;
  return [...container(db, coll), "docs", name];
}

/** The resource id of an item by its id: for those that have no address. */
export async function ridOf(db, coll, { id }, headers, signal) {
  const answer = await query([...container(db, coll), "docs"], {
    query: "SELECT VALUE c._rid FROM c WHERE c.id = @id",
    parameters: [{ name: "@id", value: id }],
  }, headers, signal);
  const [rid] = answer.json.Documents;
  if (!rid) throw new Refusal(404, { message: "" });
  return rid;
}

export function query(names, body, headers = {}, signal) {
  return call("POST", names, {
    body,
    signal,
    headers: {
      "content-type": "application/query+json",
      "x-ms-documentdb-isquery": "true",
      "x-ms-documentdb-query-enablecrosspartition": "true",
      ...headers,
    },
  });
}

// Administration

export async function admin(method, path, body, signal, { search = "", headers = {} } = {}) {
  return (await call(method, ["_perseid", ...path], { body, signal, search, headers })).json;
}

export const ttl = (db, coll, ...rest) => ["ttl", db, coll, ...rest];
