/** The CDC port: its processes, connections and streams. The section exists only if the port is enabled. */

import { Chart } from "./chart.js";
import { StreamDetail } from "./cdcdetail.js";
import { peer, streamKey, streams, total, trouble, users } from "./cdcstreams.js";
import { byId, h, name, setText } from "./dom.js";
import { Facts } from "./facts.js";
import { ago, bytes, count, exact, NONE, plural, qualified, rate, visible } from "./format.js";
import { figure, Grid } from "./grid.js";
import { stateCell } from "./icon.js";
import { appear, showStops } from "./outputs.js";

/** @typedef {import("./api.js").CDC} CDC */
/** @typedef {import("./api.js").CDCStream} CDCStream */

/** Number of users that are listed. */
const NAMED = 12;

export class Cdc {
  constructor() {
    /** @type {import("./rates.js").View | null} */
    this.view = null;
    this.section = byId("cdc");
    this.stops = byId("cdc-stops");
    this.trouble = byId("cdc-trouble");
    this.note = byId("cdc-note");
    this.facts = new Facts(byId("cdc-facts"));
    this.sent = new Chart({
      title: "Rows sent per second",
      series: [{ label: "all streams", stroke: "main" }],
      format: rate,
    });
    this.lag = new Chart({
      title: "Behind, bytes",
      series: [{ label: "slowest stream", stroke: "main" }],
      format: bytes,
      binary: true,
    });
    byId("cdc-charts").append(this.sent.element, this.lag.element);
    /** @param {CDCStream} stream */
    const speed = (stream) => this.view.rates.of(`cdc rows ${streamKey(stream)}`);
    this.grid = new Grid(byId("cdc-list"), {
      title: "cdc-title",
      noun: "connection",
      empty: "No client is connected.",
      order: { column: "behind", descending: true },
      key: streamKey,
      search: (stream) =>
        [stream.user, stream.uuid, peer(stream), stream.state, stream.form, tableOf(stream), stream.gtid].join(" "),
      heading: ({ user }) => (user ? name(user) : h("bdi", {}, "(not logged in)")),
      detail: () => new StreamDetail(() => this.view.rates),
      columns: [
        { id: "name", label: "User", by: ({ user }) => user },
        { id: "table", label: "Table", by: tableOf, cell: table },
        { id: "status", label: "State", room: 2, by: state, cell: () => stateCell(state) },
        { id: "form", label: "Form", room: 3, by: ({ form }) => form, text: ({ form }) => form.toUpperCase() || NONE },
        { id: "address", label: "Address", room: 4, by: peer, text: peer },
        {
          id: "gtid",
          label: "GTID",
          title: "Last transaction sent",
          room: 4,
          by: ({ position }) => position,
          text: ({ version, gtid }) => (version ? gtid : NONE),
        },
        {
          id: "behind",
          label: "Behind",
          title: "Bytes of the journal not sent yet",
          by: ({ lag_bytes }) => lag_bytes,
          text: ({ version, lag_bytes }) => (version ? bytes(lag_bytes) : NONE),
        },
        {
          id: "rate",
          label: "Rows/s",
          title: "Rows sent per second",
          room: 2,
          by: (stream) => speed(stream) ?? -1,
          text: (stream) => rate(speed(stream)),
        },
        figure("rows", "Rows", ({ rows }) => rows, count, { title: "Rows sent; an update is two", room: 3 }),
        figure("size", "Bytes", (stream) => stream.bytes, bytes, { title: "Bytes sent", room: 3 }),
        figure("since", "Connected", ({ since }) => since, (at) => ago(at, this.view.stat.at), { room: 4 }),
      ],
    });
  }

  /** @param {import("./rates.js").View} view */
  update(view) {
    this.view = view;
    const { cdc } = view.stat;
    appear(this.section, cdc !== null);
    if (cdc) this.showPort(cdc);
    this.grid.show(streams(cdc));
  }

  /** @param {import("./api.js").History} history */
  draw(history) {
    this.sent.show(history.at, history.cdc_rows);
    this.lag.show(history.at, history.cdc_lag_bytes);
  }

  /** @param {CDC} cdc */
  showPort(cdc) {
    const { rates } = this.view;
    showStops(
      this.stops,
      cdc.processes.map(({ stop }, i) => [`cdc-${i}`, stop]),
    );
    const why = trouble(cdc);
    this.trouble.hidden = !why;
    setText(this.trouble, why && `Nobody can log in: the file of users cannot be read: ${visible(why)}`);
    const unseen = total(cdc, "left_out");
    setText(this.note, unseen ? `${plural(unseen, "connection")} more, not shown here.` : "");
    const named = users(cdc);
    const known = named.slice(0, NAMED).map(([user, many]) => `${visible(user)} (${exact(many)})`);
    const more = named.length > NAMED ? [`${exact(named.length - NAMED)} more`] : [];
    const { facts } = this;
    facts.show("Port", `${cdc.address}:${cdc.port}`, "code");
    facts.show("State", states(cdc));
    facts.show("Users connected", [...known, ...more].join(", ") || "none");
    facts.show("Furthest behind", bytes(streams(cdc).reduce((most, { lag_bytes }) => Math.max(most, lag_bytes), 0)));
    facts.show("Sending", `${rate(rates.of("cdc rows"))} rows/s, ${bytes(rates.of("cdc bytes"))} per second`);
    facts.show("Sent so far", `${plural(total(cdc, "rows"), "row")}, ${bytes(total(cdc, "bytes"))}`);
    facts.show("Logins rejected", exact(total(cdc, "refused")));
  }
}

/** One state if all processes have the same. @param {CDC} cdc */
function states({ processes }) {
  const found = processes.map(({ state }, i) => `cdc-${i} ${state}`);
  return new Set(processes.map(({ state }) => state)).size === 1 ? processes[0].state : found.join(", ");
}

/** @param {CDCStream} stream */
function tableOf({ schema, table }) {
  return table ? qualified(schema, table) : "";
}

function table() {
  const element = h("bdi");
  /** @param {CDCStream} stream */
  const show = (stream) => setText(element, tableOf(stream) || NONE);
  return { element, show };
}

/** @param {CDCStream} stream */
function state({ state }) {
  return state;
}
