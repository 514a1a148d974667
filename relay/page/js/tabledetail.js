/** Details of a table: rows per minute, all counts, its clients and its columns. */

import * as api from "./api.js";
import { peer, streamKey } from "./cdcstreams.js";
import { BY_KIND, Chart } from "./chart.js";
import { ColumnTable } from "./columntable.js";
import { h, makeTable, name as bdiName, reconcile, setText } from "./dom.js";
import { Facts } from "./facts.js";
import { bytes, exact, instant, short } from "./format.js";
import { Refresher } from "./poller.js";

const EVERY = 5000;
/** Number of CDC connections that are listed. */
const SLOWEST = 10;
/** @type {[string, "hour" | "day" | "total"][]} */
const SPANS = [
  ["Rolling hour", "hour"],
  ["Rolling 24 h", "day"],
  ["Total", "total"],
];

export class TableDetail {
  /** @param {string} schema @param {string} table */
  constructor(schema, table) {
    this.chart = new Chart({
      title: "Rows per minute",
      series: BY_KIND,
      format: short,
      stepped: true,
    });
    this.counts = h("tbody");
    this.last = h("p");
    this.clients = h("ul", { class: "plain" });
    this.note = h("p", { class: "note" });
    this.streams = h("ul", { class: "plain" });
    this.unseen = h("p", { class: "note" });
    this.cdc = h("div", { hidden: true }, h("h3", {}, "CDC connections with this table"), this.streams, this.unseen);
    this.columns = new ColumnTable();
    const names = h("div");
    this.element = h(
      "div",
      { class: "details" },
      h(
        "section",
        {},
        names,
        h("h3", {}, "Rows"),
        makeTable("small numbers", ["Counted over", "Insert", "Update", "Delete"], this.counts),
        this.last,
        h("h3", {}, "Clients with this table"),
        this.clients,
        this.note,
        this.cdc,
      ),
      h("section", { class: "charts" }, this.chart.element),
      h("section", { class: "wide" }, h("h3", {}, "Columns"), this.columns.element),
    );
    const facts = new Facts(names);
    facts.show("Schema", schema);
    facts.show("Table", table);
    this.refresher = new Refresher(
      EVERY,
      () => api.table(schema, table),
      (detail) => this.answered(detail),
      this.note,
    );
  }

  /** @param {api.TableUsage} usage */
  show(usage) {
    reconcile(
      this.counts,
      SPANS,
      ([label]) => label,
      countRow,
      (row, [, span]) => showCounts(row, usage[span]),
    );
    setText(this.last, usage.last ? `Last row ${instant(usage.last)}, on the source's clock.` : "");
    this.refresher.tick();
  }

  close() {
    this.chart.close();
  }

  /** @param {api.TableDetail} detail */
  answered({ minutes, clients, streams, definition }) {
    this.chart.show(minutes.at, minutes.insert, minutes.update, minutes.delete);
    reconcile(this.clients, clients, ({ id, kinds }) => `${id} ${kinds}`, follower);
    setText(this.note, clients.length ? "" : "None.");
    this.cdc.hidden = !streams.length;
    reconcile(this.streams, streams.slice(0, SLOWEST), streamKey, streamItem, showStream);
    const more = streams.length - SLOWEST;
    setText(this.unseen, more > 0 ? `${exact(more)} more with less lag.` : "");
    this.columns.show(definition);
  }
}

/** @param {[string, string]} span */
function countRow([label]) {
  return h("tr", {}, h("th", { scope: "row" }, label), h("td"), h("td"), h("td"));
}

/** @param {Element} row @param {api.Counts} counts */
function showCounts(row, counts) {
  const [, inserts, updates, deletes] = row.children;
  setText(inserts, exact(counts.insert));
  setText(updates, exact(counts.update));
  setText(deletes, exact(counts.delete));
}

/** @param {{id: number, name: string, kinds: string}} client */
function follower({ name, kinds }) {
  return h("li", {}, bdiName(name), ` (${kinds})`);
}

/** @param {api.CDCStream} stream */
function streamItem(stream) {
  return h("li", {}, bdiName(stream.user), h("span"));
}

/** @param {Element} item @param {api.CDCStream} stream */
function showStream(item, stream) {
  const place = stream.version ? `${bytes(stream.lag_bytes)} behind` : "waiting";
  setText(item.lastElementChild, ` (${stream.form.toUpperCase()}) from ${peer(stream)}, ${place}`);
}
