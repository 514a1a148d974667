/** Findings about a stat document: what an operator should know first. Pure. */

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
 * @property {boolean} [alert] screen readers read it at once; its text does not change
 */

/** A lag above this, in seconds, is a finding. */
const LATE = 60;
/** Parts of the binlog's expiry: with less time left, a warning, and an urgent one. */
const SCARCE = 0.25;
const URGENT = 0.05;
/** Part of the journal's largest size from which on it is nearly full. */
const FULL = 0.9;
/** Seconds without a heartbeat after which a process hangs, as for the supervisor. */
const HANGS = 60;
/** The same for processes that may wait for slow storage. */
const HANGS_SLOW = 600;
const SLOW = new Set(["exporter", "snapshotter", "merger", "logger"]);
/** Seconds without an event or heartbeat of the source. */
const SILENT = 60;

/** The most severe first. @param {Stat} stat @param {Rates} rates @returns {Finding[]} */
export function findings(stat, rates) {
  const found = [
    ...stops(stat),
    ...loss(stat),
    ...source(stat),
    ...processes(stat),
    ...journal(stat),
    ...users(stat),
    ...losing(stat, rates),
    ...requested(stat),
  ];
  const rank = { stop: 0, warn: 1, busy: 2, idle: 2, ok: 3 };
  return found.sort((a, b) => rank[a.level] - rank[b.level]);
}

/** @param {Stat} stat */
function* stops({ stop, lake, log, cdc }) {
  /** @type {[string, string, import("./api.js").Stop | null | undefined, string][]} */
  const named = [
    ["relay", "Stopped", stop, ""],
    ["export", "The export to the lake stopped", lake?.export.stop, "Clients are still served. "],
    ["snapshot", "The snapshot of the lake stopped", lake?.snapshot.stop, "Clients are still served. "],
    ["merge", "The merging of open tables stopped", lake?.open_tables?.stop, "Clients are still served. "],
    ["log", "The log of changes stopped", log?.status.stop, "Clients are still served. "],
  ];
  for (const { schema, table, stop: why } of lake?.open_tables?.tables ?? []) {
    const name = `${schema}.${table}`;
    if (why) named.push([`open ${name}`, `The open table ${name} stopped`, why, "Other tables are still merged. "]);
  }
  for (const [i, process] of (cdc?.processes ?? []).entries()) {
    const title = `The CDC process cdc-${i} stopped`;
    named.push([`cdc-${i}`, title, process.stop, "Other clients are still served. "]);
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
    left > 0 ? `Data will be lost in ${duration(left)}` : "The source may have purged unread events";
  yield finding(
    "loss",
    level,
    title,
    `The source keeps its binlog for ${duration(watch.expiry)}; it soon purges the oldest unread change.`,
    "Let the relay catch up, or let the source keep its binlog longer.",
  );
}

/** @param {Stat} stat */
function* source({
  stop,
  state,
  source: { host, port, file, state: link, silent_seconds: silent, lag_seconds, lag_bytes, watch },
}) {
  if (stop) return;
  if (link === "reconnecting" && !file) {
    yield finding(
      "source",
      "warn",
      "The source was never reached",
      watch.trouble || `No connection to ${host}:${port} yet.`,
      "The relay retries by itself. `relay check` reports what is wrong.",
    );
    return;
  }
  if (link === "reconnecting") {
    const text = `No event from ${host}:${port} for ${duration(silent)}. Clients get the rows in the journal.`;
    yield finding(
      "source",
      "warn",
      "The source does not reply",
      text,
      "The relay retries by itself; see its log for the cause.",
    );
  } else if (link === "no_password") {
    yield finding(
      "source",
      "warn",
      "There is no password for the source",
      `${watch.trouble || "PasswordCommand fails."} Clients get the rows in the journal.`,
      "The relay retries by itself; see its log for the cause.",
    );
  } else if (link === "streaming" && silent > SILENT) {
    yield finding(
      "source",
      "warn",
      "The source is silent",
      `No event and no heartbeat for ${duration(silent)}.`,
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
      "Lag and time to data loss are unknown",
      watch.trouble,
      "`relay check` reports what is missing.",
    );
  }
}

/** Processes that are down or hang, except those with a fatal error. @param {Stat} stat */
function* processes({ stop, lake, log, cdc, processes }) {
  const stops = {
    reader: stop,
    exporter: lake?.export.stop,
    snapshotter: lake?.snapshot.stop,
    merger: lake?.open_tables?.stop,
    logger: log?.status.stop,
    ...Object.fromEntries((cdc?.processes ?? []).map((process, i) => [`cdc-${i}`, process.stop])),
  };
  const down = processes.filter(({ name, state }) => state === "down" && !stops[name]).map(({ name }) => name);
  if (down.length) {
    const title = down.length === 1 ? `The process ${down[0]} is down` : `${down.length} processes are down`;
    const text = down.length === 1 ? "" : down.join(", ");
    yield finding("down", "warn", title, text, "The supervisor restarts it; see the log for the cause.");
  }
  for (const { name, silent_seconds: silent } of processes) {
    const patience = SLOW.has(name) ? HANGS_SLOW : HANGS;
    if (silent > patience) {
      yield finding(`hangs ${name}`, "warn", `The process ${name} hangs`, `No heartbeat for ${duration(silent)}.`, "");
    }
  }
}

/** The journal will soon drop rows that clients have not fetched. @param {Stat} stat */
function* journal({ journal: { first, committed, max_bytes: cap } }) {
  const size = committed - first;
  if (!cap || size < cap * FULL) return;
  const text = `It has ${bytes(size)} of at most ${bytes(cap)}. At the limit it drops rows that clients have not fetched.`;
  yield finding(
    "journal",
    "warn",
    "The journal is nearly full",
    text,
    "Let slow clients catch up, remove unused ones with `relay client forget`, or raise JournalMaxBytes.",
  );
}

/** The file of users of the CDC port cannot be read. @param {Stat} stat */
function* users({ cdc }) {
  const why = cdc && trouble(cdc);
  if (!why) return;
  const hint = "Make the file readable for the relay; the relay retries by itself.";
  yield finding("users", "warn", "Users of the CDC port cannot log in", why, hint);
}

/** Clients that are losing rows now. @param {Stat} stat @param {Rates} rates */
function* losing({ clients }, rates) {
  const found = clients.filter(({ id }) => (rates.of(`dropped ${id}`) ?? 0) > 0);
  if (!found.length) return;
  const names =
    found
      .slice(0, 3)
      .map(({ name }) => name)
      .join(", ") + (found.length > 3 ? " and others" : "");
  yield finding(
    "losers",
    "warn",
    `${plural(found.length, "client")} losing rows now`,
    names,
    "See the client's row below for the reasons: a limit of its filters, or retention.",
  );
}

/** States that an operator requested or accepted, and a relay without rows. @param {Stat} stat */
function* requested({ state, traffic, gaps, usage }) {
  if (state === "paused" || state === "pausing") {
    yield finding("held", "idle", "Paused", "The relay does not read from the source.", "`relay resume` continues.");
  } else if (state === "draining") {
    yield finding("held", "busy", "Draining", "The relay does not read; clients get the remaining rows.", "");
  } else if (state === "starting") {
    yield finding("held", "busy", "Starting", "The relay is not connected to the binlog yet.", "");
  } else if (state === "running" && !usage.tables.length && !usage.trouble) {
    const text = "No table has changed since the relay connected for the first time.";
    yield finding("rows", "idle", "No rows yet", text, "Insert a row at the source: it appears here and at clients.");
  }
  if (traffic.skipped) {
    const what = `The relay skipped ${exact(traffic.skipped)} unknown events or tables (OnUnknown = skip).`;
    yield finding("skipped", "idle", "Events were skipped", what, "");
  }
  if (gaps.length) {
    yield finding("gaps", "idle", plural(gaps.length, "accepted gap"), "Events were lost for every client.", "");
  }
}

/** @param {string} id @param {import("./icon.js").Level} level @param {string} title @param {string} text
 * @param {string} hint @returns {Finding} */
function finding(id, level, title, text, hint) {
  return { id, level, title, text, hint };
}
