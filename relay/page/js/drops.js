/** Rows that clients asked for and did not get. */

/** @typedef {import("./api.js").Client} Client */
/** @typedef {import("./api.js").Dropped} Dropped */

/** @type {[keyof Dropped, string][]} reasons, and words for them */
export const REASONS = [
  ["limit_oldest", "oldest, beyond its limit"],
  ["limit_newest", "newest, beyond its limit"],
  ["cut", "cut by retention"],
  ["flush", "flushed by an operator"],
  ["undecodable", "not decodable"],
  ["skipped", "skipped: not confirmed"],
];

/** Of one client, for whatever reason. @param {Client} client */
export function dropped(client) {
  let sum = 0;
  for (const [reason] of REASONS) sum += client.dropped[reason];
  return sum;
}

/** Of all together, by reason; those of which there are none are left out. @param {Client[]} clients */
export function droppedByReason(clients) {
  return REASONS.map(([reason, words]) => ({
    words,
    rows: clients.reduce((sum, client) => sum + client.dropped[reason], 0),
  })).filter(({ rows }) => rows);
}
