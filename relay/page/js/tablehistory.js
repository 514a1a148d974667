/** A table's schema history: its versions with position, statement and proof. */

import * as api from "./api.js";
import { h, makeTable, reconcile, scrolling, setText } from "./dom.js";
import { visible } from "./format.js";
import { Refresher } from "./poller.js";

const EVERY = 30000;
const HEADS = ["Since", "Proof", "Columns", "By"];

export class TableHistory {
  /** @param {string} schema @param {string} table */
  constructor(schema, table) {
    this.note = h("p", { class: "note" });
    this.body = h("tbody");
    const versions = scrolling("History", makeTable("small versions", HEADS, this.body));
    this.element = h("section", { class: "wide" }, h("h3", {}, "History"), this.note, versions);
    this.refresher = new Refresher(
      EVERY,
      () => api.tableHistory(schema, table),
      (history) => this.answered(history),
      this.note,
    );
  }

  update() {
    this.refresher.tick();
  }

  /** @param {api.TableHistory} history */
  answered({ damaged, versions }) {
    setText(this.note, damaged && `Damaged: ${visible(damaged)}. Older versions are unknown.`);
    reconcile(this.body, versions, JSON.stringify, versionRow);
  }
}

/** @param {api.SchemaVersion} version */
function versionRow({ file, position, proof, statement, current, gtid, ...state }) {
  const since = file ? `${file}:${position}` : "the beginning";
  const cells = [
    h("th", { scope: "row" }, h("bdi", {}, visible(since)), current ? "" : ", from an earlier source"),
    h("td", {}, proof),
    h("td", {}, h("bdi", {}, visible(columnsText(state)))),
    h("td", {}, h("bdi", { class: "code" }, visible(statement))),
  ];
  return h("tr", { title: gtid }, ...cells);
}

/** @param {{state: string, cause: string, columns: api.SchemaColumn[]}} version */
function columnsText({ state, cause, columns }) {
  if (state === "absent") return "the table does not exist";
  if (state === "unknown") return `unknown: ${cause}`;
  return columns.map(({ name, type }) => `${name} ${type}`).join(", ");
}
