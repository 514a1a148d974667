/** The list of clients, with their filters and queues. */

import { ClientDetail } from "./clientdetail.js";
import { byId, name, setText } from "./dom.js";
import { dropped, droppedByReason } from "./drops.js";
import { ago, count, exact, qualified, rate } from "./format.js";
import { figure, Grid } from "./grid.js";
import { stateCell } from "./icon.js";

/** @typedef {import("./api.js").Client} Client */

export class Clients {
  constructor() {
    /** @type {import("./rates.js").View | null} */
    this.view = null;
    this.note = byId("clients-note");
    const now = () => this.view.stat.at;
    const since = (at) => ago(at, now());
    const speed = ({ id }) => this.view.rates.of(`confirmed ${id}`);
    this.grid = new Grid(byId("clients-list"), {
      title: "clients-title",
      noun: "client",
      empty: "No client has logged in yet. The command relay tail prints rows as a client gets them.",
      order: { column: "queue", descending: true },
      key: ({ id }) => String(id),
      search: (client) => `${client.id} ${client.name} ${client.address} ${client.status} ${filters(client)}`,
      heading: (client) => name(client.name),
      detail: (client) => new ClientDetail(client.id, now),
      columns: [
        { id: "name", label: "Name", by: (client) => client.name },
        figure("id", "ID", ({ id }) => id, String, { room: 4 }),
        { id: "status", label: "Status", by: status, cell: () => stateCell(status) },
        { id: "filters", label: "Filters", room: 4, by: ({ filters }) => filters.length, text: filters },
        figure("queue", "Queue", (c) => c.waiting, count, { title: "Rows waiting" }),
        figure("max", "Max queue", (c) => c.max_waiting, count, { title: "Largest number of rows waiting", room: 3 }),
        {
          id: "rate",
          label: "Rows/s",
          title: "Rows confirmed per second",
          room: 2,
          by: (c) => speed(c) ?? -1,
          text: (c) => rate(speed(c)),
        },
        figure("served", "Served", (c) => c.served, count, { title: "Rows served, repeats included", room: 3 }),
        figure("discarded", "Discarded", dropped, count, {
          title: "Rows that matched and were not delivered",
          room: 2,
        }),
        figure("started", "Started", (c) => c.first_seen, since, { title: "First seen", room: 4 }),
        figure("seen", "Last seen", (c) => c.last_seen, since, { title: "Last request", room: 2 }),
      ],
    });
  }

  /** @param {import("./rates.js").View} view */
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

/** @param {Client} client */
function status({ status }) {
  return status;
}
