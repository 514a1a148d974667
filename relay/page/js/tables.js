/** Tables: what happened in each, whoever asked for it. Counted in rows. */

import { byId, setText, tableName } from "./dom.js";
import { ago, count, exact, instant, visible } from "./format.js";
import { Grid } from "./grid.js";
import { TableDetail } from "./tabledetail.js";

/** @typedef {import("./api.js").TableUsage} TableUsage */
/** @typedef {"hour" | "day" | "total"} Span */
/** @typedef {"insert" | "update" | "delete"} Kind */

/** @type {[Span, string, 1 | 3 | 4][]} with the room that they take */
const SPANS = [
  ["hour", "Rolling hour", 1],
  ["day", "Rolling 24 h", 3],
  ["total", "Total", 4],
];
/** @type {[Kind, string][]} */
const KINDS = [
  ["insert", "Insert"],
  ["update", "Update"],
  ["delete", "Delete"],
];

/** @param {import("./api.js").Counts} counts */
const sum = (counts) => counts.insert + counts.update + counts.delete;

export class Tables {
  constructor() {
    this.at = 0;
    this.since = byId("tables-since");
    this.trouble = byId("tables-trouble");
    this.grid = new Grid(byId("tables-list"), {
      title: "tables-title",
      noun: "table",
      empty: "No row was read yet.",
      order: { column: "Rolling hour", descending: true },
      key: tableKey,
      search: ({ schema, table }) => `${schema}.${table}`,
      heading: ({ schema, table }) => tableName(schema, table),
      detail: (usage) => new TableDetail(usage.schema, usage.table),
      groups: Object.fromEntries(SPANS.map(([span, label]) => [label, (usage) => sum(usage[span])])),
      columns: [
        { id: "name", label: "Table", by: ({ schema, table }) => `${schema}.${table}` },
        ...SPANS.flatMap(([span, group, room]) =>
          KINDS.map(([kind, label]) => ({
            id: `${span}-${kind}`,
            label,
            group,
            room,
            by: (usage) => usage[span][kind],
            text: (usage) => count(usage[span][kind]),
          })),
        ),
        { id: "last", label: "Last row", room: 2, by: ({ last }) => last, text: ({ last }) => ago(last, this.at) },
      ],
    });
  }

  /** @param {import("./main.js").View} view */
  update({ stat: { at, usage } }) {
    this.at = at;
    this.trouble.hidden = !usage.trouble;
    setText(this.trouble, usage.trouble && `The counting does not go on: ${visible(usage.trouble)}`);
    const missed = usage.missed ? ` ${exact(usage.missed)} changes were deleted before they could be counted.` : "";
    const left = usage.left_out ? ` ${exact(usage.left_out)} with the fewest rows of the day are not listed.` : "";
    setText(
      this.since,
      usage.since ? `Rows, counted since ${instant(usage.since)}; an update is one.${left}${missed}` : "",
    );
    this.grid.show(usage.tables);
  }
}

/** @param {{schema: string, table: string}} table */
export function tableKey({ schema, table }) {
  return JSON.stringify([schema, table]);
}
