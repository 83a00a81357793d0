// When an item ends, and why: the rule of perseid/ttl.py in the browser's words, for countdowns in
// lists. The server alone decides; a test holds the two equal.

const NEVER = -1;
const LONGEST = 2_147_483_647;

/** The item's own lifetime if it is a valid one; null if it is absent or counts as absent. */
export function ownTtl(item) {
  const value = item.ttl;
  if (!Number.isInteger(value)) return null;
  return value === NEVER || (value >= 1 && value <= LONGEST) ? value : null;
}

/** Whether the server would store the item's ttl; where TTL is off it takes any. */
export function isTtlTaken(item, defaultTtl) {
  return defaultTtl === null || !Object.hasOwn(item, "ttl") || ownTtl(item) !== null;
}

/** {origin: "item" | "container" | "none", ends: second or null}; `defaultTtl` null means off. */
export function lifetime(item, defaultTtl) {
  if (defaultTtl === null) return { origin: "none", ends: null };
  const own = ownTtl(item);
  const seconds = own ?? defaultTtl;
  if (seconds === NEVER) return { origin: "none", ends: null };
  return { origin: own === null ? "container" : "item", ends: item._ts + seconds };
}

/** Why an item has the end it has, in one sentence. */
export function because(item, defaultTtl) {
  const own = ownTtl(item);
  if (defaultTtl === null) {
    return "ttl" in item
      ? "Time to live is off in this container: ttl is stored, and nobody acts on it."
      : "Time to live is off in this container.";
  }
  if (own === NEVER) return "Its ttl of -1 keeps it, whatever the container says.";
  if (own !== null) return `Its own ttl ends it ${span(own)} after its last write.`;
  const ignored = "ttl" in item ? "Its ttl is not a valid lifetime and counts as absent. " : "";
  if (defaultTtl === NEVER) {
    return `${ignored}It has no ttl of its own, and the container sets no default.`;
  }
  return `${ignored}The container's default ends it ${span(defaultTtl)} after its last write.`;
}

const UNITS = [["year", 31_536_000], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** A length of time in words, at most two units: "1 hour 30 minutes". */
export function span(seconds) {
  const parts = [];
  let left = Math.round(seconds);
  for (const [name, size] of UNITS) {
    const count = Math.floor(left / size);
    if (count && parts.length < 2) parts.push(`${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`);
    left -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 seconds";
}

/** A countdown, short and of steady width: "4m 09s". */
export function countdown(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3_600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)}h ${two(Math.floor(s / 60) % 60)}m`;
  if (s < 31_536_000) return `${Math.floor(s / 86_400)}d ${two(Math.floor(s / 3_600) % 24)}h`;
  return `${Math.floor(s / 31_536_000)}y ${Math.floor((s % 31_536_000) / 86_400)}d`;
}
