// The server's REST API: signs and sends requests, returns responses or throws errors.

import { signer } from "./signature.js";

const MAX_RETRIES = 9; // of requests that were throttled, as in the SDKs
const MAX_PAUSE = 3_000; // milliseconds
const STORED_KEY = "perseid.key"; // in session storage: it is kept until the tab is closed

/** A response with an error status, with the server's message. */
export class RequestError extends Error {
  constructor(status, body) {
    super((status === 401 && keyMessage(body)) || messageOf(body) || `The server returned status ${status}.`);
    this.status = status;
    this.body = body;
    this.errors = errorsIn(body);
  }
}

/** The server sent no response. */
export class ServerUnreachable extends Error {}

/** The errors that a query response lists as JSON in its message: [{message, location}]. */
function errorsIn(body) {
  const json = /^Message: (\{.*\})\r?\n/s.exec(body?.message ?? "")?.[1];
  try {
    const parsed = JSON.parse(json);
    return parsed.errors ?? parsed.Errors.map((message) => ({ message }));
  } catch {
    return [];
  }
}

function messageOf(body) {
  const errors = errorsIn(body);
  if (errors.length) return errors.map(({ message }) => message).join("\n");
  return (body?.message ?? "").replace(/\r?\nActivityId:.*$/s, "").replace(/^Message: /, "");
}

/** Replaces the server's message about signatures, which is for authors of clients. */
function keyMessage(body) {
  if (/current time/.test(body?.message)) return null; // the date was rejected, not the key
  return sign ? "The server does not accept this key." : "The server requires a key. Sign in first.";
}

// Signing in

let sign = null; // null before signing in, and when the server requires no key
let isSigningIn = false; // then the sign-in form shows a rejected key
let clockOffset = 0; // milliseconds from the browser's clock to the server's

/** Signs in with a base64 key; throws if it is not valid or not a key of this account. */
export async function signIn(key) {
  let newSign;
  try {
    newSign = await signer(key);
  } catch {
    throw new Error("This is not a valid key: a key is base64 text, as in a connection string.");
  }
  const previous = sign;
  sign = newSign;
  isSigningIn = true;
  try {
    await measureClockOffset();
    await call("GET", ["dbs"], { headers: { "x-ms-max-item-count": "1" } });
  } catch (error) {
    sign = previous;
    throw error;
  } finally {
    isSigningIn = false;
  }
  sessionStorage.setItem(STORED_KEY, key);
}

export function signOut() {
  sign = null;
  sessionStorage.removeItem(STORED_KEY);
}

export const storedKey = () => sessionStorage.getItem(STORED_KEY);
export const isSignedIn = () => sign !== null;

/** Whether the server accepts requests without a signature. */
export async function isOpen() {
  try {
    await call("GET", ["_perseid", "clock"]);
    return true;
  } catch (error) {
    if (error instanceof RequestError) return false;
    throw error;
  }
}

/** A signature contains a date, which the server compares with its own clock. */
async function measureClockOffset() {
  const response = await call("GET", ["_perseid", "health"]);
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(date)) return;
  const offset = date - Date.now();
  clockOffset = Math.abs(offset) > 60_000 ? offset : 0; // replaces an earlier value, which may be outdated
}

async function signatureHeaders(method, names) {
  if (!sign) return {};
  const date = new Date(Date.now() + clockOffset).toUTCString();
  const [type, link] = signedResource(names);
  const signature = await sign(`${method.toLowerCase()}\n${type}\n${link}\n${date.toLowerCase()}\n\n`);
  return { "x-ms-date": date, authorization: encodeURIComponent(`type=master&ver=1.0&sig=${signature}`) };
}

/** The resource type and the resource link that a signature covers. */
function signedResource(names) {
  if (names[0] === "_perseid") return ["_perseid", names.join("/")];
  if (names[0] === "offers" && names.length === 2) return ["offers", names[1].toLowerCase()];
  if (names.length % 2 === 0) return [names.at(-2), names.join("/")];
  return [names.at(-1), names.slice(0, -1).join("/")];
}

// Requests

/**
 * Sends one request; `names` are the segments of the path, not escaped.
 * Resolves to {status, headers, text, json}; rejects with a RequestError for status 400 and above.
 */
export async function call(method, names, options = {}) {
  const { body, headers = {}, search = "", signal, retries = MAX_RETRIES } = options;
  checkNames(names);
  const signedWith = sign;
  // Direct: answer also what the cloud service refuses or leaves to its clients.
  const fixed = { "x-ms-version": "2020-07-15", "x-perseid-direct": "true" };
  const sent = { ...fixed, ...headers, ...(await signatureHeaders(method, names)) };
  if (body !== undefined) sent["content-type"] ??= "application/json";
  const content = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const path = `/${names.map(encodeURIComponent).join("/")}${search}`;
  const { response, text } = await send(path, { method, headers: sent, body: content, signal, cache: "no-store" });
  if (response.status === 429 && retries > 0) { // the request was not executed
    await pause(Math.min(MAX_PAUSE, Number(response.headers.get("x-ms-retry-after-ms")) || 100));
    return call(method, names, { ...options, retries: retries - 1 });
  }
  if (response.status >= 400) {
    const error = new RequestError(response.status, parseBody(text));
    const isWrite = method !== "GET" && !headers["x-ms-documentdb-isquery"];
    if (response.status === 401) reportRejectedKey(error, signedWith, isWrite);
    throw error;
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

/** Browsers resolve . and .. in a path, even if escaped: the request would address another resource. */
function checkNames(names) {
  const name = names.find((each) => each === "." || each === "..");
  if (name) throw new Error(`A browser cannot send requests for the name “${name}”. Use an SDK or the command line instead.`);
}

async function send(path, options) {
  try {
    const response = await fetch(path, options);
    return { response, text: await response.text() };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerUnreachable("The server does not respond. Is it still running?");
  }
}

/**
 * Asks the user for another key, unless the key has changed since the request was sent.
 * Without a key only writes ask for one: the page also reads in the background.
 */
function reportRejectedKey(error, signedWith, isWrite) {
  if ((!sign && !isWrite) || sign !== signedWith || isSigningIn) return;
  document.dispatchEvent(new CustomEvent("unauthorized", { detail: error }));
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function parseBody(text) {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text };
  }
}

// Databases and containers

export const database = (db) => ["dbs", db];
export const container = (db, coll) => [...database(db), "colls", coll];
export const items = (db, coll) => [...container(db, coll), "docs"];

/** All resources of a list, from all its pages. */
async function listAll(names, property, signal) {
  const resources = [];
  const headers = {};
  do {
    const page = await call("GET", names, { headers, signal });
    resources.push(...page.json[property]);
    headers["x-ms-continuation"] = page.headers.get("x-ms-continuation");
  } while (headers["x-ms-continuation"]);
  return resources;
}

export const listDatabases = (signal) => listAll(["dbs"], "Databases", signal);
export const listContainers = (db, signal) =>
  listAll([...database(db), "colls"], "DocumentCollections", signal);

export async function readContainer(db, coll, signal) {
  return (await call("GET", container(db, coll), { signal })).json;
}

/** The headers of a create that set {manual: n}, {autoscale: n} or nothing. */
export function throughputHeaders({ manual, autoscale } = {}) {
  if (manual !== undefined) return { "x-ms-offer-throughput": String(manual) };
  if (autoscale === undefined) return {};
  return { "x-ms-cosmos-offer-autopilot-settings": JSON.stringify({ maxThroughput: autoscale }) };
}

/** The header that confirms a change which the expiry guard would reject. */
export const confirmationHeader = (token) => (token ? { "x-perseid-confirm": token } : {});

/**
 * Replaces a container with some properties changed and all others as they are now.
 * A property set to undefined is removed. `loaded` is the container that the user has edited:
 * if one of these properties has changed since, nothing is saved.
 */
export async function changeContainer(db, coll, changes, { confirmation, loaded } = {}) {
  const current = await readContainer(db, coll);
  const isUnchanged = (name) => JSON.stringify(current[name]) === JSON.stringify(loaded[name]);
  if (loaded && !Object.keys(changes).every(isUnchanged)) {
    throw new Error("Another client has changed this since the page was loaded. Nothing was saved; reload the page to see the current value.");
  }
  const body = { ...current, ...changes };
  for (const name of Object.keys(body)) if (name.startsWith("_")) delete body[name];
  const headers = { "if-match": current._etag, ...confirmationHeader(confirmation) };
  return (await call("PUT", container(db, coll), { body, headers })).json;
}

// Offers

/** The offer of a database or container, by its resource id; null if it has no own offer. */
export async function readOffer(rid, signal) {
  const response = await query(["offers"], {
    query: "SELECT * FROM o WHERE o.offerResourceId = @rid",
    parameters: [{ name: "@rid", value: rid }],
  }, {}, signal);
  return response.json.Offers[0] ?? null;
}

/** Sets manual throughput or an autoscale maximum; changing the mode takes a request of its own. */
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

/** JSON for a header: non-ASCII characters are escaped. */
export function headerJson(text) {
  return text.replace(/[^\x20-\x7e]/g, (char) =>
    `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export const partitionKeyHeader = (json) => ({ "x-ms-documentdb-partitionkey": headerJson(json) });

/** The path of an item. Browsers resolve the ids . and .. so those need the resource id. */
export function itemPath(db, coll, item) {
  const name = item.id === "." || item.id === ".." ? item._rid : item.id;
  return [...items(db, coll), name];
}

/** The resource id of an item, for ids that cannot be part of a path. */
export async function readItemRid(db, coll, { id }, headers, signal) {
  const response = await query(items(db, coll), {
    query: "SELECT VALUE c._rid FROM c WHERE c.id = @id",
    parameters: [{ name: "@id", value: id }],
  }, headers, signal);
  const [rid] = response.json.Documents;
  if (!rid) throw new RequestError(404, { message: "" });
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

export async function admin(method, path, { body, signal, search, headers } = {}) {
  return (await call(method, ["_perseid", ...path], { body, signal, search, headers })).json;
}

export const ttl = (db, coll, ...rest) => ["ttl", db, coll, ...rest];
