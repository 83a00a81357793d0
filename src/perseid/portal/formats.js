// Numbers, sizes, times and durations as text.

export const number = (n) => n.toLocaleString("en");
export const plural = (n, word) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;
export const twoDigits = (n) => String(n).padStart(2, "0");

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  for (const unit of ["KB", "MB", "GB"]) {
    n /= 1024;
    if (n < 1024 || unit === "GB") return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`;
  }
}

/** At most `length` characters: browsers lay out the whole text of a cell and its tooltip. */
export const truncated = (text, length) => (text.length > length ? `${text.slice(0, length)}…` : text);

/** A time of the server's clock, to the second, in the time zone of the browser. */
export function dateTime(seconds) {
  const date = new Date(seconds * 1000);
  const day = [date.getFullYear(), twoDigits(date.getMonth() + 1), twoDigits(date.getDate())].join("-");
  return `${day} ${timeOfDay(date)}:${twoDigits(date.getSeconds())}`;
}

export const timeOfDay = (date) => `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`;

const UNITS = [["year", 31_536_000], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];

/** A duration in words, at most two units: "1 hour 30 minutes". */
export function duration(seconds) {
  const parts = [];
  let rest = Math.round(seconds);
  for (const [name, size] of UNITS) {
    const count = Math.floor(rest / size);
    if (count) parts.push(plural(count, name));
    rest -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 seconds";
}

/** A countdown, short and of nearly constant width: "4m 09s". */
export function countdown(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3_600) return `${Math.floor(s / 60)}m ${twoDigits(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)}h ${twoDigits(Math.floor(s / 60) % 60)}m`;
  if (s < 31_536_000) return `${Math.floor(s / 86_400)}d ${twoDigits(Math.floor(s / 3_600) % 24)}h`;
  return `${Math.floor(s / 31_536_000)}y ${Math.floor((s % 31_536_000) / 86_400)}d`;
}
