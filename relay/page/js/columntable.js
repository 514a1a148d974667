/** A table's columns with their types and metadata. */

import { h, makeTable, reconcile, scrolling, setText } from "./dom.js";
import { visible } from "./format.js";

/** @typedef {import("./api.js").Column} Column */

const HEADS = ["#", "Column", "Type", "Traits", "Charset", "Field type", "Meta", "Column UID"];

export class ColumnTable {
  constructor() {
    this.identity = h("p", { class: "note" });
    this.body = h("tbody");
    this.table = makeTable("small definition", HEADS, this.body);
    this.element = h("div", {}, this.identity, scrolling("Columns", this.table));
  }

  /** @param {import("./api.js").TableSchema | null} definition */
  show(definition) {
    this.table.hidden = definition === null;
    if (definition === null) {
      setText(this.identity, "Its definition was not read yet.");
      return;
    }
    const { schema_uid: schema, table_uid: table, version, proven, columns } = definition;
    const names = proven ? "" : " Names are unproven: columns are known by position only.";
    setText(this.identity, `Schema UID ${hex(schema, 8)}, table UID ${hex(table, 8)}, version ${version}.${names}`);
    const numbered = columns.map((column, index) => ({ column, index }));
    const key = ({ index, column }) => `${index} ${column.name} ${column.type} ${column.meta}`;
    reconcile(this.body, numbered, key, columnRow);
  }
}

/** @param {{column: Column, index: number}} numbered */
function columnRow({ column, index }) {
  const cells = [
    h("td", {}, String(index + 1)),
    h("th", { scope: "row" }, h("bdi", {}, visible(column.name))),
    h("td", {}, h("bdi", { class: "code" }, visible(column.type))),
    h("td", {}, traits(column)),
    h("td", {}, column.charset),
    h("td", { class: "code" }, hex(column.field_type, 4)),
    h("td", { class: "code" }, hex(column.meta, 4)),
    h("td", { class: "code" }, hex(column.uid, 8)),
  ];
  return h("tr", {}, ...cells);
}

/** @param {Column} column */
function traits({ primary, nullable, unsigned }) {
  return [primary && "primary key", unsigned && "unsigned", nullable ? "nullable" : "not null"]
    .filter(Boolean)
    .join(", ");
}

/** @param {number} value @param {number} digits at least */
function hex(value, digits) {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}
