/** The CDC port in the stat document, all its processes together. Pure. */

/** @typedef {import("./api.js").CDC} CDC */
/** @typedef {import("./api.js").CDCStream} CDCStream */

/** All streams in the document. @param {CDC | null} cdc @returns {CDCStream[]} */
export function streams(cdc) {
  return cdc ? cdc.processes.flatMap((process) => process.streams) : [];
}

/** The key of a connection; it changes at the login. @param {CDCStream} stream */
export function streamKey({ address, port, since, user }) {
  return `${address} ${port} ${since} ${user}`; // only the user may contain blanks
}

/** The address and port of the client. @param {CDCStream} stream */
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

/** The error of reading the file of users, or "". @param {CDC} cdc */
export function trouble({ processes }) {
  return processes.find((process) => process.trouble)?.trouble ?? "";
}

/**
 * Users that are logged in, with the numbers of their connections; the largest first.
 * @param {CDC} cdc @returns {[string, number][]}
 */
export function users(cdc) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const { user } of streams(cdc)) if (user) found.set(user, (found.get(user) ?? 0) + 1);
  return [...found].sort(([a, many], [b, more]) => more - many || (a < b ? -1 : 1));
}
