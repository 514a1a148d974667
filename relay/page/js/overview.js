/** The most important figures, and charts of the last hour. */

import * as api from "./api.js";
import { BY_KIND, Chart } from "./chart.js";
import { byId, h, setText } from "./dom.js";
import { bytes, duration, exact, NONE, rate, short } from "./format.js";
import { Refresher } from "./poller.js";

const EVERY = 5000;

export class Overview {
  /** @param {{draw: (history: api.History) => void}[]} other parts with charts of the last hour */
  constructor(others) {
    this.figures = byId("figures");
    /** @type {Map<string, {value: Element, note: Element}>} */
    this.tiles = new Map();
    this.rows = new Chart({ title: "Rows read per second", series: BY_KIND, format: rate });
    this.queues = new Chart({
      title: "Queue depth",
      series: [{ label: "rows waiting", stroke: "main" }],
      format: short,
    });
    this.lag = new Chart({ title: "Lag, time", series: [{ label: "behind", stroke: "main" }], format: duration });
    this.lagBytes = new Chart({
      title: "Lag, bytes",
      series: [{ label: "behind", stroke: "main" }],
      format: bytes,
      binary: true,
    });
    this.charts = [this.rows, this.queues, this.lag, this.lagBytes];
    byId("charts").append(...this.charts.map(({ element }) => element));
    this.note = byId("charts-note");
    this.refresher = new Refresher(
      EVERY,
      api.history,
      (history) => [this, ...others].forEach((part) => part.draw(history)),
      this.note,
      "The charts are not up to date",
    );
  }

  /** @param {import("./rates.js").View} view */
  update({ stat, rates }) {
    const { source, clients, journal, usage } = stat;
    this.tile("Rows read", rate(rates.of("rows")), "per second");
    this.tile("Rows confirmed", rate(rates.of("confirmed")), "per second, all clients");
    this.tile(
      "Lag",
      duration(source.lag_seconds),
      source.lag_bytes === null ? "unknown" : `${bytes(source.lag_bytes)} of binlog`,
    );
    this.tile("Time to data loss", ...loss(source));
    const waiting = clients.reduce((sum, client) => sum + client.waiting + client.in_flight, 0);
    this.tile("Waiting", short(waiting), "rows in all queues");
    const online = clients.filter(({ connected }) => connected).length;
    this.tile("Clients", exact(online), `connected, of ${exact(clients.length)}`);
    this.tile("Tables", exact(usage.tables.length + usage.left_out), "with rows");
    this.tile("Journal", bytes(journal.bytes), "on disk");
    this.refresher.tick();
  }

  /** @param {string} label @param {string} text @param {string} words */
  tile(label, text, words) {
    let tile = this.tiles.get(label);
    if (!tile) {
      tile = { value: h("span", { class: "figure" }), note: h("span", { class: "unit" }) };
      this.tiles.set(label, tile);
      this.figures.append(h("div", {}, h("dt", {}, label), h("dd", {}, tile.value, tile.note)));
    }
    setText(tile.value, text);
    setText(tile.note, words);
  }

  /** @param {api.History} history */
  draw(history) {
    setText(this.note, "");
    this.rows.show(history.at, history.insert, history.update, history.delete);
    this.queues.show(history.at, history.waiting);
    this.lag.show(history.at, history.lag_seconds);
    this.lagBytes.show(history.at, history.lag_bytes);
  }
}

/** @param {api.Source} source @returns {[string, string]} */
export function loss({ loss_seconds: left, watch: { expiry } }) {
  if (expiry === 0) return ["never", "no binlog expiry"];
  if (expiry === null || left === null)
    return [NONE, expiry === null ? "unknown" : `binlog kept for ${duration(expiry)}`];
  return [left > 0 ? duration(left) : "now", `binlog kept for ${duration(expiry)}`];
}
