/** The source, the relay, and its journal. */

import { byId } from "./dom.js";
import { Facts } from "./facts.js";
import { ago, bytes, duration, exact, instant } from "./format.js";
import { loss } from "./overview.js";

export class Source {
  constructor() {
    this.source = new Facts(byId("source-facts"));
    this.relay = new Facts(byId("relay-facts"));
    this.journal = new Facts(byId("journal-facts"));
  }

  /** @param {import("./rates.js").View} view */
  update({ stat, rates }) {
    this.showSource(stat);
    this.showRelay(stat, rates.of("bytes"));
    this.showJournal(stat.journal);
  }

  /** @param {import("./api.js").Stat} stat */
  showSource({ at, source, stop }) {
    const { watch } = source;
    const list = this.source;
    list.show("Server", `${source.host}:${source.port}`);
    list.show("State", stop ? "not read" : source.state);
    list.show("Last signal", source.file ? ago(at - source.silent_seconds, at) : "none yet");
    list.show("Binlog file", source.file, "code");
    list.show("Binlog position", source.file && String(source.position), "code");
    list.show("End of binlog", watch.file && `${watch.file}:${watch.position}`, "code");
    list.show(
      "Lag",
      source.lag_seconds === null ? "unknown" : `${duration(source.lag_seconds)}, ${bytes(source.lag_bytes)}`,
    );
    list.show("Time to data loss", loss(source).join(", "));
    list.show("Last event", source.last_event ? `${instant(source.last_event)}, on the source's clock` : "none yet");
    list.show("End checked", watch.at ? ago(watch.at, at) : "not yet");
    list.show("Check failed", watch.trouble);
    list.show("GTID set", source.gtid_set, "code wide");
  }

  /** @param {import("./api.js").Stat} stat @param {number | null} pace bytes per second */
  showRelay({ at, version, protocol, state, started, clients, processes, addresses, traffic, rows }, pace) {
    const list = this.relay;
    list.show("State", state);
    list.show("Version", version);
    list.show("Protocol version", protocol, "code");
    list.show("Started", `${instant(started)}, ${ago(started, at)}`);
    list.show("Number of clients", exact(clients.length));
    list.show("Processes", exact(processes.length));
    list.show("Transactions read", exact(traffic.transactions));
    list.show("Rows read", exact(rows.insert + rows.update + rows.delete));
    const speed = pace === null ? "" : `, ${bytes(Math.round(pace))} per second`;
    list.show("Bytes read", bytes(traffic.bytes) + speed);
    list.show("Rows served", exact(clients.reduce((sum, client) => sum + client.served, 0)));
    for (const [name, address] of Object.entries(addresses)) list.show(`Address, ${name}`, address, "code");
  }

  /** @param {import("./api.js").Journal} journal */
  showJournal({ first, decided, committed, flushed, bytes: size, sequence, max_bytes: cap }) {
    const list = this.journal;
    list.show("On disk", `${bytes(size)}, at most ${bytes(cap)}`);
    list.show("History", bytes(committed - first));
    list.show("Not flushed yet", bytes(Math.max(0, committed - flushed)));
    list.show("Not queued yet", bytes(committed - decided));
    list.show("Begins at", exact(first));
    list.show("Committed", exact(committed));
    list.show("Next change", `number ${exact(sequence)}`);
  }
}
