/** Rows that matched filters and were not delivered. */

/** @typedef {import("./api.js").Client} Client */
/** @typedef {import("./api.js").Dropped} Dropped */

/** @type {[keyof Dropped, string][]} reasons and their labels */
export const REASONS = [
  ["limit_oldest", "oldest, above the limit"],
  ["limit_newest", "newest, above the limit"],
  ["cut", "cut by retention"],
  ["flush", "flushed by an operator"],
  ["undecodable", "not decodable"],
  ["skipped", "skipped: not confirmed"],
];

/** Of one client, for all reasons. @param {Client} client */
export function dropped(client) {
  let sum = 0;
  for (const [reason] of REASONS) sum += client.dropped[reason];
  return sum;
}

/** Of all clients, by reason, without reasons of zero rows. @param {Client[]} clients */
export function droppedByReason(clients) {
  return REASONS.map(([reason, words]) => ({
    words,
    rows: clients.reduce((sum, client) => sum + client.dropped[reason], 0),
  })).filter(({ rows }) => rows);
}
