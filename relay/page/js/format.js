/** Figures and names as text. Times are Unix seconds, shown in UTC as `relay stat` does. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const three = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const UNITS = ["", " k", " M", " G", " T", " P", " E"];
const BYTE_UNITS = [" B", " KiB", " MiB", " GiB", " TiB", " PiB"];

/** The text of an unknown value. */
export const NONE = "–";

/** @param {number} value @param {number} base @param {string[]} units */
function scaled(value, base, units) {
  let step = 0;
  while (Math.abs(value) >= base * 0.9995 && step < units.length - 1) {
    value /= base;
    step += 1;
  }
  return three.format(value) + units[step];
}

/** All digits: 12,345,678. @param {number} value */
export function exact(value) {
  return whole.format(value);
}

/** All digits as long as a column has room for them, then three of them: 12.3 M. @param {number} value */
export function count(value) {
  return Math.abs(value) < 1e7 ? whole.format(value) : scaled(value, 1000, UNITS);
}

/** Three digits: 1.24 k. @param {number} value */
export function short(value) {
  return Math.abs(value) < 1000 ? three.format(value) : scaled(value, 1000, UNITS);
}

/** @param {number | null} value */
export function bytes(value) {
  if (value === null) return NONE;
  return value < 1024 ? `${whole.format(value)} B` : scaled(value, 1024, BYTE_UNITS);
}

/** A rate in a second; null while it is not known. @param {number | null} value */
export function rate(value) {
  return value === null
    ? NONE
    : value > 0 && value < 0.1
      ? "<0.1"
      : value < 10
        ? three.format(round(value))
        : short(Math.round(value));
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}

/** The two largest units of a duration: 0.4 s, 12 s, 3 min 5 s, 6 d 23 h. @param {number | null} seconds */
export function duration(seconds) {
  if (seconds === null) return NONE;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds < 10) return `${round(seconds)} s`;
  const s = Math.floor(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(s, 60, "min", 1, "s");
  if (s < 86400) return two(s, 3600, "h", 60, "min");
  return two(s, 86400, "d", 3600, "h");
}

/** @param {number} s @param {number} large @param {string} name @param {number} small @param {string} rest */
function two(s, large, name, small, rest) {
  const less = Math.floor((s % large) / small);
  return `${whole.format(Math.floor(s / large))} ${name}` + (less ? ` ${less} ${rest}` : "");
}

/** The largest unit of a duration: 3 min. @param {number} seconds at least 1 */
function coarse(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${whole.format(Math.floor(seconds / 86400))} d`;
}

/** A duration in milliseconds, for gaps between deliveries. @param {number} milliseconds */
export function gap(milliseconds) {
  return milliseconds < 10000 ? `${whole.format(milliseconds)} ms` : duration(milliseconds / 1000);
}

/** 2026-11-20 15:51:43 UTC; a dash for 0. @param {number} seconds */
export function instant(seconds) {
  return seconds ? `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC` : NONE;
}

/** 15:51:43.207, in UTC. @param {number} seconds */
export function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 23);
}

/** How long ago, on the relay's clock. @param {number} then @param {number} now */
export function ago(then, now) {
  if (!then) return "never";
  const seconds = Math.max(0, now - then);
  return seconds < 1.5 ? "now" : `${coarse(seconds)} ago`;
}

const ESCAPES = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;
const JOINERS = /^[\u200c\u200d]$/u;
/** The end of a text after which a joiner has no visible effect. */
const NOT_JOINING = /(?:^|[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}\p{P}\p{Z}\p{C}])$/u;

/**
 * A name from outside. Characters that are invisible, break the line or change the direction of the text are written
 * as escapes. Joiners stay where emoji and some scripts need them.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(UNSEEN, (char, at) => {
    if (JOINERS.test(char) && !NOT_JOINING.test(text.slice(0, at))) return char;
    return ESCAPES[char] ?? `\\u{${char.codePointAt(0).toString(16)}}`;
  });
}

/**
 * A table's full name, without ambiguity: `a.b`.c is not a.`b.c`.
 * @param {string} schema @param {string} table
 */
export function qualified(schema, table) {
  return `${quoted(schema)}.${quoted(table)}`;
}

/** @param {string} text */
function quoted(text) {
  const plain = visible(text);
  return /^\s|\s$|[.`]|^$/u.test(plain) ? `\`${plain.replaceAll("`", "``")}\`` : plain;
}

/** `5 rows`, `1 row`. @param {number} n @param {string} noun */
export function plural(n, noun) {
  return `${whole.format(n)} ${noun}${n === 1 ? "" : "s"}`;
}
