/** What an open row tells of a client: all its figures, filters, drops by reason, last deliveries and last hour. */

import * as api from "./api.js";
import { Chart } from "./chart.js";
import { queue } from "./clients.js";
import { h, reconcile, setText } from "./dom.js";
import { Facts } from "./facts.js";
import { ago, clock, duration, exact, gap, instant, plural, rate, short, visible } from "./format.js";
import { Refresher } from "./poller.js";

const EVERY = 2000;
const DISCARD = ["the newest rows go when it is full", "the oldest rows go when it is full", "the newest rows go when it is full"];
/** @type {[keyof api.Dropped, string][]} */
const REASONS = [
  ["limit_oldest", "Discarded, oldest beyond the limit"],
  ["limit_newest", "Discarded, newest beyond the limit"],
  ["cut", "Discarded, cut by retention"],
  ["flush", "Discarded, flushed by an operator"],
  ["undecodable", "Discarded, not decodable"],
];

export class ClientDetail {
  /** @param {number} id @param {import("./clients.js").Clients} clients */
  constructor(id, clients) {
    this.clients = clients;
    this.waiting = new Chart({ title: "Queue depth", series: [{ label: "rows waiting", stroke: "main" }], format: short });
    this.confirmed = new Chart({ title: "Rows confirmed per second", series: [{ label: "rows/s", stroke: "main" }], format: rate });
    this.filters = h("ul", { class: "plain" });
    this.deliveries = h("ol", { class: "deliveries" });
    this.note = h("p", { class: "note" });
    const facts = h("div");
    this.element = h(
      "div",
      { class: "details" },
      h("section", {}, h("h3", {}, "Figures"), facts),
      h("section", {}, h("h3", {}, "Filters"), this.filters, h("h3", {}, "Last deliveries"), this.deliveries, this.note),
      h("section", { class: "charts" }, this.waiting.element, this.confirmed.element),
    );
    this.facts = new Facts(facts);
    this.refresher = new Refresher(EVERY, () => api.client(id), (detail) => this.answered(detail), (error) => this.failed(error));
  }

  /** @param {api.Client} client */
  show(client) {
    const { at } = this.clients.view.stat;
    const list = this.facts;
    list.show("ID", String(client.id));
    list.show("Status", client.status);
    list.show("Address", client.address, "code");
    list.show("Started", client.first_seen ? instant(client.first_seen) : "");
    list.show("Last seen", client.last_seen ? instant(client.last_seen) : "not since the relay started");
    list.show("Inactive", client.last_seen ? duration(Math.max(0, at - client.last_seen)) : "");
    list.show("Matched", exact(client.matched));
    list.show("Confirmed", exact(client.confirmed));
    list.show("Served", exact(client.served));
    list.show("Queue", `${exact(queue(client))}: ${exact(client.waiting)} waiting, ${exact(client.in_flight)} in flight`);
    list.show("Max queue", exact(client.max_waiting));
    for (const [reason, label] of REASONS) list.show(label, exact(client.dropped[reason]));
    list.show("Lagging", client.lagging ? "its queue goes on in the journal" : "");
    reconcile(this.filters, client.filters, (filter) => JSON.stringify(filter), filterItem, () => {});
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
    reconcile(this.deliveries, deliveries, key, () => h("li", {}, h("time"), h("span", { class: "gap" }), h("bdi")), showDelivery);
    setText(this.note, deliveries.length ? "" : "None yet since the relay started.");
  }

  /** @param {Error} error */
  failed(error) {
    setText(this.note, `The relay did not say: ${error.message}.`);
  }
}

/** @param {api.Filter} filter */
function filterItem({ schema, table, kinds, discard, limit }) {
  const limited = limit ? `, at most ${plural(limit, "row")}: ${DISCARD[discard] ?? DISCARD[0]}` : "";
  return h("li", {}, h("bdi", { class: "code" }, visible(`${schema}.${table}`)), ` (${kinds})${limited}`);
}

/** @param {Element} item @param {api.Delivery} delivery */
function showDelivery(item, { at, gap: since, schema, table, kind, rows }) {
  const [time, between, what] = item.children;
  setText(time, clock(at));
  setText(between, since === null ? "" : `+${gap(since * 1000)}`);
  const from = table ? `${visible(`${schema}.${table}`)} (${kind})` : "no longer in the journal";
  setText(what, `${plural(rows, "row")}, ${from}`);
}
