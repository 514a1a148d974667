/** From a stat document to what an operator should know first. Pure. */

import { trouble } from "./cdcstreams.js";
import { bytes, duration, exact, plural } from "./format.js";

/** @typedef {import("./api.js").Stat} Stat */
/** @typedef {import("./rates.js").Rates} Rates */

/**
 * @typedef {object} Finding
 * @property {string} id
 * @property {import("./icon.js").Level} level
 * @property {string} title
 * @property {string} text
 * @property {string} hint what to do; "" if nothing
 * @property {boolean} [alert] it is read out at once, and does not change while it stands
 */

/** Behind the source by more than this, in seconds, is worth a word. */
const LATE = 60;
/** Parts of the binlog's expiry that may be left before it is worth a word, and before it is urgent. */
const SCARCE = 0.25;
const URGENT = 0.05;
/** Part of the journal's cap from which on its end is in sight. */
const FULL = 0.9;
/** Seconds without a heartbeat after which a process hangs, as the supervisor has it (relay/health.py). */
const HANGS = 60;
/** The same for those that may wait for a slow store. */
const HANGS_SLOW = 600;
const SLOW = new Set(["exporter", "snapshotter", "logger"]);
/** Seconds without a sign of the source, heartbeats included. */
const SILENT = 60;

/** The gravest first. @param {Stat} stat @param {Rates} rates @returns {Finding[]} */
export function findings(stat, rates) {
  const found = [
    ...stops(stat),
    ...loss(stat),
    ...source(stat),
    ...processes(stat),
    ...journal(stat),
    ...users(stat),
    ...losers(stat, rates),
    ...held(stat),
  ];
  const rank = { stop: 0, warn: 1, busy: 2, idle: 2, ok: 3 };
  return found.sort((a, b) => rank[a.level] - rank[b.level]);
}

/** @param {Stat} stat */
function* stops({ stop, lake, log, cdc }) {
  /** @type {[string, string, import("./api.js").Stop | null | undefined, string][]} */
  const named = [
    ["relay", "Stopped", stop, ""],
    ["export", "The lake's export has stopped", lake?.export.stop, "Clients are served as before. "],
    ["snapshot", "The lake's snapshot has stopped", lake?.snapshot.stop, "Clients are served as before. "],
    ["log", "The log of changes has stopped", log?.status.stop, "Clients are served as before. "],
  ];
  for (const [i, process] of (cdc?.processes ?? []).entries()) {
    const title = `The CDC port's process cdc-${i} has stopped`;
    named.push([`cdc-${i}`, title, process.stop, "Other clients are served as before. "]);
  }
  for (const [id, title, why, before] of named) {
    if (why) yield { ...finding(id, "stop", `${title}: ${why.code}`, before + why.text, why.hint), alert: true };
  }
}

/** @param {Stat} stat */
function* loss({ source: { loss_seconds: left, watch } }) {
  if (left === null || !watch.expiry || left > watch.expiry * SCARCE) return;
  const level = left <= watch.expiry * URGENT ? "stop" : "warn";
  const title =
    left > 0 ? `Data will be lost in ${duration(left)}` : "The source may have purged what was not read yet";
  yield finding(
    "loss",
    level,
    title,
    `The source keeps its binlog for ${duration(watch.expiry)}; the oldest change not read is about to leave it.`,
    "Let the relay catch up, or make the source keep its binlog longer.",
  );
}

/** @param {Stat} stat */
function* source({
  stop,
  state,
  source: { host, port, state: link, silent_seconds: silent, lag_seconds, lag_bytes, watch },
}) {
  if (stop) return;
  if (link === "reconnecting") {
    const text = `${host}:${port} has not been heard for ${duration(silent)}. Clients get what is in the journal.`;
    yield finding(
      "source",
      "warn",
      "The source does not answer",
      text,
      "The relay tries again by itself; its log says why.",
    );
  } else if (link === "streaming" && silent > SILENT) {
    yield finding(
      "source",
      "warn",
      "The source is silent",
      `Nothing for ${duration(silent)}, not even a heartbeat.`,
      "",
    );
  }
  if (lag_seconds !== null && lag_seconds > LATE && state === "running") {
    const text = `${duration(lag_seconds)} and ${bytes(lag_bytes)} of its binlog are not in the journal yet.`;
    yield finding("lag", "warn", "Behind the source", text, "");
  }
  if (watch.trouble) {
    yield finding(
      "watch",
      "warn",
      "Lag and time to data loss are not known",
      watch.trouble,
      "`relay check` names what is missing.",
    );
  }
}

/** Those that are down, or hang; not those that stopped by name. @param {Stat} stat */
function* processes({ stop, lake, log, cdc, processes }) {
  const stops = {
    reader: stop,
    exporter: lake?.export.stop,
    snapshotter: lake?.snapshot.stop,
    logger: log?.status.stop,
    ...Object.fromEntries((cdc?.processes ?? []).map((process, i) => [`cdc-${i}`, process.stop])),
  };
  const down = processes.filter(({ name, state }) => state === "down" && !stops[name]).map(({ name }) => name);
  if (down.length) {
    const title = down.length === 1 ? `The process ${down[0]} is down` : `${down.length} processes are down`;
    const text = down.length === 1 ? "" : down.join(", ");
    yield finding("down", "warn", title, text, "The supervisor starts it again; the log says why it ended.");
  }
  for (const { name, silent_seconds: silent } of processes) {
    const patience = SLOW.has(name) ? HANGS_SLOW : HANGS;
    if (silent > patience) {
      yield finding(`hangs ${name}`, "warn", `The process ${name} hangs`, `No heartbeat for ${duration(silent)}.`, "");
    }
  }
}

/** Rows that a client has not fetched are about to be cut. @param {Stat} stat */
function* journal({ journal: { first, committed, max_bytes: cap } }) {
  const size = committed - first;
  if (!cap || size < cap * FULL) return;
  const text = `It has ${bytes(size)} of at most ${bytes(cap)}. Beyond that, rows are cut that clients have not fetched.`;
  yield finding(
    "journal",
    "warn",
    "The journal is nearly full",
    text,
    "Let slow clients catch up, `relay client forget` those that are gone, or raise JournalMaxBytes.",
  );
}

/** The file of users of the CDC port cannot be read. @param {Stat} stat */
function* users({ cdc }) {
  const why = cdc && trouble(cdc);
  if (!why) return;
  const hint = "Make it readable for the relay, which then reads it by itself.";
  yield finding("users", "warn", "Users of the CDC port cannot log in", why, hint);
}

/** Clients that are losing rows now. @param {Stat} stat @param {Rates} rates */
function* losers({ clients }, rates) {
  const losing = clients.filter(({ id }) => (rates.of(`dropped ${id}`) ?? 0) > 0);
  if (!losing.length) return;
  const names =
    losing
      .slice(0, 3)
      .map(({ name }) => name)
      .join(", ") + (losing.length > 3 ? " and others" : "");
  yield finding(
    "losers",
    "warn",
    `${plural(losing.length, "client")} losing rows now`,
    names,
    "The reasons are in the client's row below: a limit it asked for, or retention.",
  );
}

/** What somebody wanted to be so. @param {Stat} stat */
function* held({ state, traffic, gaps }) {
  if (state === "paused" || state === "pausing") {
    yield finding("held", "idle", "Paused", "Nothing more is read from the source.", "`relay resume` goes on.");
  } else if (state === "draining") {
    yield finding("held", "busy", "Draining", "Nothing more is read; clients get what is left.", "");
  } else if (state === "starting") {
    yield finding("held", "busy", "Starting", "The source does not send its binlog yet.", "");
  }
  if (traffic.skipped) {
    const what = `${exact(traffic.skipped)} events or tables that are not understood were left out, as OnUnknown = skip says.`;
    yield finding("skipped", "idle", "Something was skipped", what, "");
  }
  if (gaps.length) {
    yield finding("gaps", "idle", plural(gaps.length, "accepted gap"), "Events were lost there for every client.", "");
  }
}

/** @param {string} id @param {import("./icon.js").Level} level @param {string} title @param {string} text
 * @param {string} hint @returns {Finding} */
function finding(id, level, title, text, hint) {
  return { id, level, title, text, hint };
}
