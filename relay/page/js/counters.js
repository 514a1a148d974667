/** Counters: rows by kind, traffic, binlog events by type; and accepted gaps. */

import { byId, h, reconcile, setText } from "./dom.js";
import { bytes, exact, instant, visible } from "./format.js";

/** Types that the page of the original always shows. */
const ALWAYS = [
  "QUERY_EVENT",
  "ROTATE_EVENT",
  "FORMAT_DESCRIPTION_EVENT",
  "XID_EVENT",
  "TABLE_MAP_EVENT",
  "WRITE_ROW_EVENT_V1",
  "UPDATE_ROW_EVENT_V1",
  "DELETE_ROW_EVENT_V1",
];

export class Counters {
  constructor() {
    this.read = byId("read-rows");
    this.events = byId("events-rows");
    this.gapSection = byId("gaps");
    this.gaps = byId("gaps-rows");
  }

  /** @param {import("./rates.js").View} view */
  update({ stat: { rows, traffic, events, gaps } }) {
    const { bytes: size, ...rest } = traffic;
    const named = [
      ...Object.entries(rows).map(([kind, n]) => [`rows, ${kind}`, exact(n)]),
      ...Object.entries(rest).map(([what, n]) => [what, exact(n)]),
    ];
    showPairs(this.read, [...named, ["bytes", `${exact(size)} (${bytes(size)})`]]);
    const all = { ...Object.fromEntries(ALWAYS.map((type) => [type, 0])), ...events };
    const received = Object.values(events).reduce((sum, n) => sum + n, 0);
    showPairs(this.events, [
      ["Events received", exact(received)],
      ...Object.entries(all).map(([type, n]) => [type, exact(n)]),
    ]);
    this.gapSection.hidden = !gaps.length;
    reconcile(this.gaps, gaps, ({ at, before }) => `${at} ${before}`, gapRow);
  }
}

/** @param {Element} body @param {string[][]} pairs */
function showPairs(body, pairs) {
  const make = ([label]) => h("tr", {}, h("th", { scope: "row" }, visible(label)), h("td"));
  reconcile(
    body,
    pairs,
    ([label]) => label,
    make,
    (row, [, text]) => setText(row.lastElementChild, text),
  );
}

/** @param {import("./api.js").Gap} gap */
function gapRow({ at, before, after, cause }) {
  return h("tr", {}, ...[instant(at), before, after, cause].map((text) => h("td", {}, h("bdi", {}, visible(text)))));
}
