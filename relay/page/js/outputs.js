/** The lake and the log of changes. Each has a section only if it is configured. */

import { byId, reconcile } from "./dom.js";
import { Facts } from "./facts.js";
import { bytes, duration, exact, instant, plural } from "./format.js";
import { makeNotice, showNotice } from "./notice.js";
import { OpenTables } from "./opentables.js";

/** @typedef {import("./api.js").Stop} Stop */

export class Outputs {
  constructor() {
    this.lake = { section: byId("lake"), stops: byId("lake-stops"), facts: new Facts(byId("lake-facts")) };
    this.openTables = new OpenTables(byId("lake-tables"));
    this.log = { section: byId("log"), stops: byId("log-stops"), facts: new Facts(byId("log-facts")) };
  }

  /** @param {import("./rates.js").View} view */
  update({ stat: { at, lake, log } }) {
    appear(this.lake.section, lake !== null);
    appear(this.log.section, log !== null);
    if (lake) this.showLake(lake, at);
    if (log) this.showLog(log);
  }

  /** @param {import("./api.js").Lake} lake @param {number} now */
  showLake({ path, export: written, snapshot, open_tables: open, lag_seconds: seconds, lag_bytes: left }, now) {
    showStops(this.lake.stops, [
      ["Export", written.stop],
      ["Snapshot", snapshot.stop],
      ["Merging", open?.stop ?? null],
      ...(open?.tables ?? []).map(
        ({ schema, table, stop }) => /** @type {[string, Stop | null]} */ ([`${schema}.${table}`, stop]),
      ),
    ]);
    const { facts } = this.lake;
    facts.show("Path", path, "code");
    facts.show("Export", written.state);
    facts.show("Behind", `${duration(seconds)}, ${bytes(left)}`);
    facts.show("Up to", written.file && `${written.file}:${written.offset}`, "code");
    facts.show("Sequence", exact(written.seq));
    facts.show(
      "Written",
      `${plural(written.rows, "row")} in ${plural(written.files, "file")} since the exporter started`,
    );
    facts.show("Last report", written.at ? instant(written.at) : "none yet");
    facts.show("Snapshot", snapshot.state);
    facts.show(
      "Snapshot of",
      snapshot.table && `${snapshot.table}: ${exact(snapshot.rows)} of about ${plural(snapshot.total, "row")}`,
    );
    facts.show("Tables left", snapshot.left ? exact(snapshot.left) : "");
    facts.show("Open tables", open?.state ?? "");
    this.openTables.show(open, now);
  }

  /** @param {import("./api.js").LineLog} log */
  showLog({ path, status, lag_seconds: seconds, lag_bytes: left }) {
    showStops(this.log.stops, [["Log", status.stop]]);
    const { facts } = this.log;
    facts.show("Path", path, "code");
    facts.show("State", status.state);
    facts.show("Behind", `${duration(seconds)}, ${bytes(left)}`);
    facts.show("File", status.log_file, "code");
    facts.show("Up to", status.file && `${status.file}:${status.offset}`, "code");
    facts.show("Written", `${plural(status.lines, "line")}, ${bytes(status.bytes)} since the logger started`);
    facts.show("Last report", status.at ? instant(status.at) : "none yet");
  }
}

/** Shows or hides a section and its link in the navigation. @param {HTMLElement} section @param {boolean} there */
export function appear(section, there) {
  section.hidden = !there;
  byId(`nav-${section.id}`).hidden = !there;
}

/** @param {Element} place @param {[string, Stop | null][]} named */
export function showStops(place, named) {
  /** @type {import("./health.js").Finding[]} */
  const found = named.flatMap(([what, stop]) =>
    stop ? [{ id: what, level: "stop", title: `${what} stopped: ${stop.code}`, text: stop.text, hint: stop.hint }] : [],
  );
  reconcile(place, found, ({ id }) => id, makeNotice, showNotice);
}
