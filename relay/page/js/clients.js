/** Clients: who they are, what they asked for, and how their queues stand. */

import { ClientDetail } from "./clientdetail.js";
import { byId, name, setText } from "./dom.js";
import { dropped, droppedByReason } from "./drops.js";
import { ago, count, exact, qualified, rate } from "./format.js";
import { Grid } from "./grid.js";
import { Badge } from "./icon.js";
import { level } from "./states.js";

/** @typedef {import("./api.js").Client} Client */

export class Clients {
  constructor() {
    /** @type {import("./main.js").View | null} */
    this.view = null;
    this.note = byId("clients-note");
    const now = () => this.view.stat.at;
    const speed = ({ id }) => this.view.rates.of(`confirmed ${id}`);
    this.grid = new Grid(byId("clients-list"), {
      title: "clients-title",
      noun: "client",
      empty: "No client has logged in yet.",
      order: { column: "queue", descending: true },
      key: ({ id }) => String(id),
      search: (client) => `${client.id} ${client.name} ${client.address} ${client.status} ${filters(client)}`,
      heading: (client) => name(client.name),
      detail: (client) => new ClientDetail(client.id, this),
      columns: [
        { id: "name", label: "Name", by: (client) => client.name },
        { id: "id", label: "ID", room: 4, by: ({ id }) => id, text: ({ id }) => String(id) },
        { id: "status", label: "Status", by: ({ status }) => status, cell: status },
        { id: "filters", label: "Filters", room: 4, by: ({ filters }) => filters.length, text: filters },
        {
          id: "queue",
          label: "Queue",
          title: "Rows waiting",
          by: ({ waiting }) => waiting,
          text: ({ waiting }) => count(waiting),
        },
        {
          id: "max",
          label: "Max queue",
          title: "The most rows that were waiting",
          room: 3,
          by: (c) => c.max_waiting,
          text: (c) => count(c.max_waiting),
        },
        {
          id: "rate",
          label: "Rows/s",
          title: "Rows confirmed a second",
          room: 2,
          by: (c) => speed(c) ?? -1,
          text: (c) => rate(speed(c)),
        },
        {
          id: "served",
          label: "Served",
          title: "Rows handed out, repeats included",
          room: 3,
          by: (c) => c.served,
          text: (c) => count(c.served),
        },
        {
          id: "discarded",
          label: "Discarded",
          title: "Rows that were asked for and not delivered",
          room: 2,
          by: dropped,
          text: (c) => count(dropped(c)),
        },
        {
          id: "started",
          label: "Started",
          title: "First seen",
          room: 4,
          by: (c) => c.first_seen,
          text: (c) => ago(c.first_seen, now()),
        },
        {
          id: "seen",
          label: "Last seen",
          title: "Last request",
          room: 2,
          by: (c) => c.last_seen,
          text: (c) => ago(c.last_seen, now()),
        },
      ],
    });
  }

  /** @param {import("./main.js").View} view */
  update(view) {
    this.view = view;
    const drops = droppedByReason(view.stat.clients).map(({ rows, words }) => `${exact(rows)} ${words}`);
    setText(this.note, drops.length ? `Rows discarded: ${drops.join("; ")}.` : "");
    this.grid.show(view.stat.clients);
  }
}

/** @param {Client} client */
function filters({ filters }) {
  return filters.map(({ schema, table, kinds }) => `${qualified(schema, table)} (${kinds})`).join(", ");
}

function status() {
  const badge = new Badge();
  /** @param {Client} client */
  const show = ({ status }) => badge.show(level(status), status);
  return { element: badge.element, show };
}
