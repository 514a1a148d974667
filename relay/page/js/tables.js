/** The list of tables with their numbers of changed rows, requested by clients or not. */

import { byId, setText, tableName } from "./dom.js";
import { ago, count, exact, instant, visible } from "./format.js";
import { figure, Grid } from "./grid.js";
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
      empty: "No rows were read yet.",
      order: { column: "Rolling hour", descending: true },
      key: tableKey,
      search: ({ schema, table }) => `${schema}.${table}`,
      heading: ({ schema, table }) => tableName(schema, table),
      detail: (usage) => new TableDetail(usage.schema, usage.table),
      groups: Object.fromEntries(SPANS.map(([span, label]) => [label, (usage) => sum(usage[span])])),
      columns: [
        { id: "name", label: "Table", by: ({ schema, table }) => `${schema}.${table}` },
        ...SPANS.flatMap(([span, group, room]) =>
          KINDS.map(([kind, label]) =>
            figure(`${span}-${kind}`, label, (usage) => usage[span][kind], count, { group, room }),
          ),
        ),
        figure("last", "Last row", ({ last }) => last, (at) => ago(at, this.at), { room: 2 }),
      ],
    });
  }

  /** @param {import("./rates.js").View} view */
  update({ stat: { at, usage } }) {
    this.at = at;
    this.trouble.hidden = !usage.trouble;
    setText(this.trouble, usage.trouble && `Counting stopped: ${visible(usage.trouble)}`);
    const missed = usage.missed ? ` ${exact(usage.missed)} changes were deleted before they were counted.` : "";
    const left = usage.left_out ? ` ${exact(usage.left_out)} tables with the fewest rows of the day are not listed.` : "";
    setText(
      this.since,
      usage.since ? `Rows since ${instant(usage.since)}; an update counts as one.${left}${missed}` : "",
    );
    this.grid.show(usage.tables);
  }
}

/** @param {{schema: string, table: string}} table */
export function tableKey({ schema, table }) {
  return JSON.stringify([schema, table]);
}
