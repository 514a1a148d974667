/** Details of a connection to the CDC port. */

import { peer, streamKey } from "./cdcstreams.js";
import { h } from "./dom.js";
import { Facts } from "./facts.js";
import { bytes, exact, instant, NONE, qualified, rate } from "./format.js";

/** @typedef {import("./api.js").CDCStream} CDCStream */

export class StreamDetail {
  /** @param {() => import("./rates.js").Rates} rates */
  constructor(rates) {
    this.rates = rates;
    const connection = h("section", {}, h("h3", {}, "Connection"));
    const stream = h("section", {}, h("h3", {}, "Stream"));
    this.connection = new Facts(connection);
    this.stream = new Facts(stream);
    this.element = h("div", { class: "details" }, connection, stream);
  }

  /** @param {CDCStream} stream */
  show(stream) {
    const rates = this.rates();
    const key = streamKey(stream);
    const there = stream.version > 0;
    this.connection.show("User", stream.user || "not logged in");
    this.connection.show("UUID", stream.uuid);
    this.connection.show("Address", peer(stream), "code");
    this.connection.show("State", stream.state.replace("_", " "));
    this.connection.show("Connected", instant(stream.since));
    this.connection.show("Bytes sent", `${exact(stream.bytes)} (${bytes(stream.bytes)})`);
    this.connection.show("Bytes per second", bytes(rates.of(`cdc bytes ${key}`)));
    this.stream.show("Table", stream.table ? qualified(stream.schema, stream.table) : "none requested");
    this.stream.show("Waiting", stream.table && !there ? "for its first definition" : "");
    this.stream.show("Version", there ? String(stream.version) : "");
    this.stream.show("Form", stream.form.toUpperCase());
    this.stream.show("GTID", there ? stream.gtid : "", "code");
    this.stream.show("Journal position", there ? exact(stream.position) : "");
    this.stream.show("Behind", there ? bytes(stream.lag_bytes) : NONE);
    this.stream.show("Rows sent", exact(stream.rows));
    this.stream.show("Rows per second", rate(rates.of(`cdc rows ${key}`)));
  }

  close() {}
}
