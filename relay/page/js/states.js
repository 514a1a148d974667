/** The level of each state: it has a mark and a colour. */

/** @typedef {import("./icon.js").Level} Level */

/** @type {Record<string, Level>} of the relay, the source, the lake, the log and the CDC port */
const LEVELS = {
  running: "ok",
  streaming: "ok",
  following: "ok",
  serving: "ok",
  connected: "ok",
  idle: "idle",
  registered: "idle",
  closed: "idle",
  manual: "idle",
  away: "idle",
  paused: "idle",
  polling: "busy",
  starting: "busy",
  wait_auth: "busy",
  unregistered: "busy",
  pausing: "busy",
  draining: "busy",
  reading: "busy",
  waiting: "busy",
  "catching up": "busy",
  reconnecting: "warn",
  no_password: "warn",
  down: "warn",
  stopped: "stop",
};

/** @param {string} state @returns {Level} */
export function level(state) {
  return LEVELS[state] ?? "idle";
}
