/** All definitions read so far. The page requests them only while the section is open: there may be many. */

import * as api from "./api.js";
import { ColumnTable } from "./columntable.js";
import { byId, h, setText, tableName } from "./dom.js";
import { exact, visible } from "./format.js";
import { figure, Grid } from "./grid.js";
import { Refresher } from "./poller.js";
import { TableHistory } from "./tablehistory.js";
import { tableKey } from "./tables.js";

const EVERY = 30000;

export class Schema {
  constructor() {
    this.place = byId("schema-list");
    this.disclosure = /** @type {HTMLDetailsElement} */ (byId("schema-open"));
    this.note = byId("schema-note");
    this.grid = new Grid(this.place, {
      title: "schema-title",
      noun: "table",
      empty: "No definitions were read yet.",
      order: { column: "name", descending: false },
      key: tableKey,
      search: ({ schema, table, columns }) => `${schema}.${table} ${columns.map((column) => column.name).join(" ")}`,
      heading: ({ schema, table }) => tableName(schema, table),
      detail: columnsOf,
      columns: [
        { id: "name", label: "Table", by: ({ schema, table }) => `${schema}.${table}` },
        figure("count", "Columns", ({ columns }) => columns.length, exact),
        { id: "key", label: "Primary key", room: 2, by: primary, text: (table) => visible(primary(table)) },
        figure("version", "Version", ({ version }) => version, String, { room: 2 }),
        { id: "names", label: "Names", room: 3, by: names, text: names },
      ],
    });
    const answered = (tables) => {
      setText(this.note, "");
      this.grid.show(tables);
    };
    this.refresher = new Refresher(EVERY, api.schema, answered, this.note);
    this.count = 0;
    this.disclosure.addEventListener("toggle", () => this.ask());
    byId("nav-schema").addEventListener("click", () => {
      this.disclosure.open = true;
    });
  }

  /** @param {{stat: api.Stat}} view */
  update({ stat: { usage } }) {
    if (usage.tables.length !== this.count) this.refresher.expire();
    this.count = usage.tables.length;
    this.ask();
  }

  ask() {
    if (this.disclosure.open) this.refresher.tick();
  }
}

/** @param {api.TableSchema} definition */
function columnsOf(definition) {
  const columns = new ColumnTable();
  const history = new TableHistory(definition.schema, definition.table);
  const element = h("div", { class: "details" }, h("section", { class: "wide" }, columns.element), history.element);
  const show = (/** @type {api.TableSchema} */ current) => {
    columns.show(current);
    history.update();
  };
  show(definition);
  return { element, show, close: () => {} };
}

/** @param {api.TableSchema} definition */
function primary({ columns }) {
  return (
    columns
      .filter((column) => column.primary)
      .map((column) => column.name)
      .join(", ") || "none"
  );
}

/** @param {api.TableSchema} definition */
function names({ proven }) {
  return proven ? "proven" : "by position";
}
