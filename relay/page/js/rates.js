/** Rates from the counters of successive stat documents. */

import { streamKey, streams, total } from "./cdcstreams.js";
import { dropped } from "./drops.js";

/** @typedef {import("./api.js").Stat} Stat */
/** What every part of the page gets: the newest document, and the rates.
 * @typedef {{stat: Stat, rates: Rates}} View */

/** Number of seconds that a rate covers. */
const SPAN = 5;

/** @typedef {{at: number, started: number, counters: Map<string, number>}} Sample */

export class Rates {
  constructor() {
    /** @type {Sample[]} oldest first */
    this.samples = [];
  }

  /** @param {Stat} stat */
  add(stat) {
    const last = this.samples.at(-1);
    if (last && (last.started !== stat.started || stat.at < last.at)) this.samples = [];
    else if (last && last.at === stat.at) return; // one collected document answers several requests
    this.samples.push({ at: stat.at, started: stat.started, counters: counters(stat) });
    while (this.samples.length > 2 && this.samples[1].at <= stat.at - SPAN) this.samples.shift();
  }

  /** Growth of a counter per second; null before there are two samples of it. @param {string} name */
  of(name) {
    const first = this.samples[0];
    const last = this.samples.at(-1);
    const from = first?.counters.get(name);
    const to = last?.counters.get(name);
    if (from === undefined || to === undefined || first === last) return null;
    return Math.max(0, to - from) / (last.at - first.at);
  }
}

/** @param {Stat} stat */
function counters(stat) {
  const found = new Map();
  let rows = 0;
  for (const value of Object.values(stat.rows)) rows += value;
  found.set("rows", rows);
  found.set("bytes", stat.traffic.bytes);
  let confirmed = 0;
  for (const client of stat.clients) {
    found.set(`confirmed ${client.id}`, client.confirmed);
    found.set(`dropped ${client.id}`, dropped(client));
    confirmed += client.confirmed;
  }
  found.set("confirmed", confirmed);
  for (const process of stat.processes) {
    if (process.pid) found.set(`cpu ${process.name} ${process.pid}`, process.cpu_seconds);
  }
  if (stat.cdc) {
    found.set("cdc rows", total(stat.cdc, "rows"));
    found.set("cdc bytes", total(stat.cdc, "bytes"));
    for (const stream of streams(stat.cdc)) {
      const key = streamKey(stream);
      found.set(`cdc rows ${key}`, stream.rows);
      found.set(`cdc bytes ${key}`, stream.bytes);
    }
  }
  return found;
}
