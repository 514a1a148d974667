/** The relay's processes. */

import { byId, h, reconcile, setText } from "./dom.js";
import { bytes, duration, exact, NONE } from "./format.js";
import { Badge } from "./icon.js";
import { level } from "./states.js";

/** @typedef {import("./api.js").Process} Process */

/** Columns of plain figures, and the room that they take. */
const FIGURES = [
  ["memory", 1],
  ["time", 2],
  ["pid", 2],
  ["restarts", 2],
];

export class Processes {
  constructor() {
    this.body = byId("processes-rows");
    /** @type {WeakMap<Element, Badge>} */
    this.badges = new WeakMap();
  }

  /** @param {import("./rates.js").View} view */
  update({ stat: { processes }, rates }) {
    const show = (row, process) => this.show(row, process, rates.of(`cpu ${process.name} ${process.pid}`));
    reconcile(
      this.body,
      processes,
      ({ name }) => name,
      (process) => this.make(process),
      show,
    );
  }

  /** @param {Process} process */
  make({ name }) {
    const badge = new Badge();
    const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span"));
    const row = h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", {}, badge.element),
      h("td", { "data-col": "cpu" }, meter, h("span")),
      ...FIGURES.map(([id, room]) => h("td", { "data-col": id, "data-room": room })),
    );
    this.badges.set(row, badge);
    return row;
  }

  /** @param {Element} row @param {Process} process @param {number | null} cores */
  show(row, { pid, state, restarts, cpu_seconds: seconds, rss_bytes: memory }, cores) {
    const [, , cpu, ...rest] = row.children;
    this.badges.get(row).show(level(state), state);
    const percent = cores === null ? null : cores * 100;
    const [meter, figure] = cpu.children;
    const bar = /** @type {HTMLElement} */ (meter.firstElementChild);
    bar.style.width = `${Math.min(100, percent ?? 0)}%`;
    setText(figure, percent === null ? NONE : `${percent.toFixed(1)} %`);
    const texts = [
      pid ? bytes(memory) : NONE,
      pid ? duration(seconds) : NONE,
      pid ? String(pid) : NONE,
      exact(restarts),
    ];
    texts.forEach((text, i) => setText(rest[i], text));
  }
}
