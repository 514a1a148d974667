/** The open tables of the lake: their rows and files, and the last merge of each. */

import { h, makeTable, reconcile, scrolling, setText, tableName } from "./dom.js";
import { ago, bytes, duration, exact, NONE } from "./format.js";

/** @typedef {import("./api.js").OpenTable} OpenTable */

const HEADS = ["Table", "Rows", "Files", "Size", "Merged", "Took", "Behind"];

export class OpenTables {
  /** @param {Element} place */
  constructor(place) {
    this.body = h("tbody");
    this.element = scrolling("Open tables", makeTable("small numbers", HEADS, this.body));
    this.note = h("p", { class: "note" });
    place.append(this.element, this.note);
  }

  /** Shows them at the time `now`, Unix seconds. @param {import("./api.js").MergeStatus | null} merging
   * @param {number} now */
  show(merging, now) {
    const tables = merging?.tables ?? [];
    this.element.hidden = !tables.length;
    this.note.hidden = !merging?.left_out;
    setText(this.note, `${exact(merging?.left_out ?? 0)} more open tables are not listed.`);
    reconcile(this.body, tables, ({ schema, table }) => JSON.stringify([schema, table]), makeRow, (row, table) =>
      showRow(row, table, now),
    );
  }
}

/** @param {OpenTable} table */
function makeRow({ schema, table }) {
  return h("tr", {}, h("th", { scope: "row" }, tableName(schema, table)), ...HEADS.slice(1).map(() => h("td")));
}

/** @param {HTMLElement} row @param {OpenTable} table @param {number} now */
function showRow(row, { rows, files, bytes: size, merged, seconds, behind_since: since, stop }, now) {
  const behind = since ? duration(now - since) : duration(0);
  const texts = [
    exact(rows),
    exact(files),
    bytes(size),
    merged ? ago(merged, now) : NONE,
    merged ? duration(seconds) : NONE,
    stop ? `stopped: ${stop.code}` : behind,
  ];
  texts.forEach((text, at) => setText(row.children[at + 1], text));
}
