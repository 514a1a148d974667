/** Which rows a list shows, and in which order. Pure. */

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/**
 * @template T
 * @typedef {{by: (row: T) => number | string, key: (row: T) => string, descending: boolean}} Order
 */

/**
 * A sorted copy; equal ones by key, so that they do not change places.
 * @template T
 * @param {T[]} rows
 * @param {Order<T>} order
 */
export function sorted(rows, { by, key, descending }) {
  const sign = descending ? -1 : 1;
  const pairs = rows.map((row) => ({ row, value: by(row) }));
  pairs.sort((a, b) => sign * compare(a.value, b.value) || compare(key(a.row), key(b.row)));
  return pairs.map(({ row }) => row);
}

/** @param {number | string} a @param {number | string} b */
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}

/**
 * Rows in the order in which they are shown now, with their new figures; new rows at the end.
 * @template T
 * @param {T[]} rows
 * @param {string[]} shown keys
 * @param {(row: T) => string} key
 */
export function keepOrder(rows, shown, key) {
  const left = new Map(rows.map((row) => [key(row), row]));
  const kept = [];
  for (const id of shown) {
    const row = left.get(id);
    if (row === undefined) continue;
    kept.push(row);
    left.delete(id);
  }
  return [...kept, ...left.values()];
}

/**
 * The rows whose text has every word of the query, in any case.
 * @template T
 * @param {T[]} rows
 * @param {string} query
 * @param {(row: T) => string} text
 */
export function matching(rows, query, text) {
  const words = query.toLowerCase().split(/\s+/u).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const found = text(row).toLowerCase();
    return words.every((word) => found.includes(word));
  });
}
