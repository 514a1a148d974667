/** What the stat document tells of the CDC port, all its processes together. Pure. */

/** @typedef {import("./api.js").CDC} CDC */
/** @typedef {import("./api.js").CDCStream} CDCStream */

/** Those that have room in the document. @param {CDC | null} cdc @returns {CDCStream[]} */
export function streams(cdc) {
  return cdc ? cdc.processes.flatMap((process) => process.streams) : [];
}

/** A connection's own name, another one once it has logged in. @param {CDCStream} stream */
export function streamKey({ address, port, since, user }) {
  return `${address} ${port} ${since} ${user}`; // the user alone may hold blanks
}

/** The client's end of the connection. @param {CDCStream} stream */
export function peer({ address, port }) {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/**
 * The sum of a figure of all processes.
 * @param {CDC} cdc @param {"rows" | "bytes" | "refused" | "left_out"} figure
 */
export function total({ processes }, figure) {
  return processes.reduce((sum, process) => sum + process[figure], 0);
}

/** Why the file of users cannot be read, "" if it can. @param {CDC} cdc */
export function trouble({ processes }) {
  return processes.find((process) => process.trouble)?.trouble ?? "";
}

/**
 * Users that are logged in, with their connections; those with the most come first.
 * @param {CDC} cdc @returns {[string, number][]}
 */
export function users(cdc) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const { user } of streams(cdc)) if (user) found.set(user, (found.get(user) ?? 0) + 1);
  return [...found].sort(([a, many], [b, more]) => more - many || (a < b ? -1 : 1));
}
