// When an item expires, and why: the rule of perseid/ttl.py, for countdowns in lists.
// Only the server decides; a test checks that both rules agree.

import { duration } from "./formats.js";

const NEVER = -1;
const MAX_TTL = 2_147_483_647;

/** An item with at most this many seconds left is highlighted. */
export const EXPIRES_SOON = 60;

/** The item's own ttl if it is valid; null if it is absent or counts as absent. */
function ownTtl(item) {
  const value = item.ttl;
  if (!Number.isInteger(value)) return null;
  return value === NEVER || (value >= 1 && value <= MAX_TTL) ? value : null;
}

/** Whether the server would store the item's ttl; it accepts any while Time to Live is off. */
export function isTtlAccepted(item, defaultTtl) {
  return defaultTtl === null || !Object.hasOwn(item, "ttl") || ownTtl(item) !== null;
}

/** {source: "item" | "container" | "none", expiresAt: second or null}; `defaultTtl` null means off. */
export function expiryOf(item, defaultTtl) {
  if (defaultTtl === null) return { source: "none", expiresAt: null };
  const own = ownTtl(item);
  const seconds = own ?? defaultTtl;
  if (seconds === NEVER) return { source: "none", expiresAt: null };
  return { source: own === null ? "container" : "item", expiresAt: item._ts + seconds };
}

/** Why an item has its expiry, in one sentence or two. */
export function expiryReason(item, defaultTtl) {
  const own = ownTtl(item);
  if (defaultTtl === null) {
    return `Time to Live is off in this container${"ttl" in item ? ": ttl is stored, but has no effect" : ""}.`;
  }
  if (own === NEVER) return "Its ttl is -1, so it never expires, whatever the container's default is.";
  if (own !== null) return `Its own ttl applies: it expires ${duration(own)} after its last write.`;
  const ignored = "ttl" in item ? "Its ttl is not valid and is ignored. " : "";
  if (defaultTtl === NEVER) return `${ignored}It has no ttl, and the container has no default, so it never expires.`;
  return `${ignored}The container's default applies: it expires ${duration(defaultTtl)} after its last write.`;
}
