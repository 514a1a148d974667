/** Details of a client: figures, filters, drops by reason, last deliveries, charts of the last hour. */

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { h, reconcile, setText, tableName } from "./dom.js";
import { REASONS } from "./drops.js";
import { Facts } from "./facts.js";
import { clock, duration, exact, gap, instant, plural, qualified, rate, short } from "./format.js";
import { Refresher } from "./poller.js";

const EVERY = 2000;
const DISCARD = [
  "drops the newest rows when full",
  "drops the oldest rows when full",
  "drops the newest rows when full",
];

export class ClientDetail {
  /** @param {number} id @param {() => number} now time of the newest stat document */
  constructor(id, now) {
    this.now = now;
    this.waiting = new Chart({
      title: "Queue depth",
      series: [{ label: "rows waiting", stroke: "main" }],
      format: short,
    });
    this.confirmed = new Chart({
      title: "Rows confirmed per second",
      series: [{ label: "rows/s", stroke: "main" }],
      format: rate,
    });
    this.filters = h("ul", { class: "plain" });
    this.deliveries = h("ol", { class: "deliveries" });
    this.note = h("p", { class: "note" });
    const facts = h("div");
    const drops = h("div");
    this.element = h(
      "div",
      { class: "details" },
      h("section", {}, h("h3", {}, "Figures"), facts, h("h3", {}, "Discarded, by reason"), drops),
      h(
        "section",
        {},
        h("h3", {}, "Filters"),
        this.filters,
        h("h3", {}, "Last deliveries"),
        this.deliveries,
        this.note,
      ),
      h("section", { class: "charts" }, this.waiting.element, this.confirmed.element),
    );
    this.facts = new Facts(facts);
    this.drops = new Facts(drops);
    this.refresher = new Refresher(
      EVERY,
      () => api.client(id),
      (detail) => this.answered(detail),
      this.note,
    );
  }

  /** @param {api.Client} client */
  show(client) {
    const list = this.facts;
    list.show("Name", client.name);
    list.show("ID", String(client.id));
    list.show("Status", client.status);
    list.show("Address", client.address, "code");
    list.show("Started", client.first_seen ? instant(client.first_seen) : "");
    list.show("Last seen", client.last_seen ? instant(client.last_seen) : "not since the relay started");
    list.show("Inactive", client.last_seen ? duration(Math.max(0, this.now() - client.last_seen)) : "");
    list.show("Matched", exact(client.matched));
    list.show("Confirmed", exact(client.confirmed));
    list.show("Served", exact(client.served));
    list.show("Queue", `${exact(client.waiting)} waiting, ${exact(client.in_flight)} in flight`);
    list.show("Repeats", client.repeats ? `the same row ${exact(client.repeats + 1)} times, not confirmed` : "");
    list.show("Max queue", exact(client.max_waiting));
    for (const [reason, label] of REASONS) this.drops.show(label, exact(client.dropped[reason]));
    list.show("Lagging", client.lagging ? "its queue continues in the journal" : "");
    reconcile(this.filters, client.filters, (filter) => JSON.stringify(filter), filterItem);
    this.refresher.tick();
  }

  close() {
    this.waiting.close();
    this.confirmed.close();
  }

  /** @param {api.ClientDetail} detail */
  answered({ deliveries, history }) {
    this.waiting.show(history.at, history.waiting);
    this.confirmed.show(history.at, history.confirmed);
    const key = ({ at, rows }) => `${at} ${rows}`;
    reconcile(
      this.deliveries,
      deliveries,
      key,
      () => h("li", {}, h("time"), h("span", { class: "gap" }), h("bdi")),
      showDelivery,
    );
    setText(this.note, deliveries.length ? "" : "None yet since the relay started.");
  }
}

/** @param {api.Filter} filter */
function filterItem({ schema, table, kinds, discard, limit }) {
  const limited = limit ? `, at most ${plural(limit, "row")}: ${DISCARD[discard] ?? DISCARD[0]}` : "";
  return h("li", {}, tableName(schema, table), ` (${kinds})${limited}`);
}

/** @param {Element} item @param {api.Delivery} delivery */
function showDelivery(item, { at, gap_ms: since, schema, table, kind, rows }) {
  const [time, between, what] = item.children;
  setText(time, clock(at));
  setText(between, since === null ? "" : `+${gap(since)}`);
  const from = schema ? `${qualified(schema, table)} (${kind})` : "no longer in the journal";
  setText(what, `${plural(rows, "row")}, ${from}`);
}
