/** A table's schema history: what it was, since when, by which statement, and what proves it. */

import * as api from "./api.js";
import { h, reconcile, setText } from "./dom.js";
import { visible } from "./format.js";
import { Refresher } from "./poller.js";

const EVERY = 30000;
const HEADS = ["Since", "Proof", "Columns", "By"];

export class TableHistory {
  /** @param {string} schema @param {string} table */
  constructor(schema, table) {
    this.note = h("p", { class: "note" });
    this.body = h("tbody");
    const heads = HEADS.map((label) => h("th", { scope: "col" }, label));
    const versions = h("table", { class: "small versions" }, h("thead", {}, h("tr", {}, ...heads)), this.body);
    const scrolls = h("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "History" }, versions);
    this.element = h("section", { class: "wide" }, h("h3", {}, "History"), this.note, scrolls);
    this.refresher = new Refresher(
      EVERY,
      () => api.tableHistory(schema, table),
      (history) => this.answered(history),
      (error) => setText(this.note, `The relay did not say: ${error.message}.`),
    );
  }

  update() {
    this.refresher.tick();
  }

  /** @param {api.TableHistory} history */
  answered({ damaged, versions }) {
    setText(this.note, damaged && `Damaged: ${visible(damaged)}. What is older is not known.`);
    reconcile(this.body, versions, JSON.stringify, versionRow, () => {});
  }
}

/** @param {api.SchemaVersion} version */
function versionRow({ file, position, proof, statement, current, gtid, ...state }) {
  const since = file ? `${file}:${position}` : "the beginning";
  const cells = [
    h("th", { scope: "row" }, h("bdi", {}, visible(since)), current ? "" : ", of an earlier source"),
    h("td", {}, proof),
    h("td", {}, h("bdi", {}, visible(columnsText(state)))),
    h("td", {}, h("bdi", { class: "code" }, visible(statement))),
  ];
  return h("tr", { title: gtid }, ...cells);
}

/** @param {{state: string, cause: string, columns: api.SchemaColumn[]}} version */
function columnsText({ state, cause, columns }) {
  if (state === "absent") return "there is no such table";
  if (state === "unknown") return `not known: ${cause}`;
  return columns.map(({ name, type }) => `${name} ${type}`).join(", ");
}
