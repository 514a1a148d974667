/** Assembles the parts of the page and updates them. */

import * as api from "./api.js";
import { Cdc } from "./cdc.js";
import { Clients } from "./clients.js";
import { Counters } from "./counters.js";
import { byId } from "./dom.js";
import { next } from "./first.js";
import { duration } from "./format.js";
import { Outputs } from "./outputs.js";
import { Overview } from "./overview.js";
import { Poller } from "./poller.js";
import { Processes } from "./processes.js";
import { Rates } from "./rates.js";
import { Schema } from "./schema.js";
import { Source } from "./source.js";
import { Tables } from "./tables.js";
import { Topbar } from "./topbar.js";
import { Verdict } from "./verdict.js";

const EVERY = 1000;

// On a phone, fold the facts so that the lists are near.
if (matchMedia("(max-width: 40rem)").matches) {
  for (const panel of document.querySelectorAll("details.panel")) panel.removeAttribute("open");
}

const rates = new Rates();
const clients = new Clients();
const cdc = new Cdc();
const tables = new Tables();
const schema = new Schema();
const verdict = new Verdict();
const topbar = new Topbar({ clients: clients.grid, cdc: cdc.grid, tables: tables.grid, schema: schema.grid });
const parts = [
  verdict,
  new Overview([cdc]),
  new Source(),
  clients,
  cdc,
  tables,
  schema,
  new Processes(),
  new Outputs(),
  new Counters(),
  topbar,
];

/** Milliseconds for which figures count as live. */
const LIVE = 3500;

/** Time of the newest figures, 0 before the first. */
let answeredAt = 0;
/** Time since which the page waits: a hidden page does not ask. */
let waitingSince = performance.now();

/** Version of the relay that served this page. */
let version = "";

/** @param {api.Stat} stat */
function answered(stat) {
  version ||= stat.version;
  if (version !== stat.version) {
    location.reload(); // another version has another page
    return;
  }
  answeredAt = waitingSince = performance.now();
  rates.add(stat);
  document.body.dataset.fresh = "yes";
  byId("content").setAttribute("aria-busy", "false");
  for (const part of parts) part.update({ stat, rates });
}

/** @param {string} why */
function silent(why) {
  const age = answeredAt ? duration((performance.now() - answeredAt) / 1000) : "";
  document.body.dataset.fresh = "no";
  topbar.stale(age ? `no reply, ${age} old` : "no reply");
  verdict.silent(why, age);
}

setInterval(() => {
  if (!document.hidden && performance.now() - waitingSince > LIVE) silent("the reply is late");
}, EVERY);
document.addEventListener("visibilitychange", () => {
  waitingSince = performance.now();
});
new Poller({ every: EVERY, load: next, answered, failed: (error) => silent(error.message) }).resume();
