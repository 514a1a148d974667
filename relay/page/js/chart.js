/** Curves over the last hour, drawn by uPlot. */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h } from "./dom.js";
import { clock, NONE } from "./format.js";

/** How a curve is drawn; colour alone distinguishes none. @typedef {"main" | "second" | "third"} Stroke */
/** @typedef {{label: string, stroke: Stroke}} Series */

/** A curve for each kind of row. @type {Series[]} */
export const BY_KIND = [
  { label: "insert", stroke: "main" },
  { label: "update", stroke: "second" },
  { label: "delete", stroke: "third" },
];

const STROKES = {
  main: { colour: "--accent", width: 1.75, dash: [] },
  second: { colour: "--text", width: 1.25, dash: [5, 3] },
  third: { colour: "--muted", width: 1.5, dash: [1.5, 3] },
};
const AXIS_FONT = "11px system-ui, sans-serif";
const HOUR = 3600;
/** Least span of a chart, in seconds, for a relay that started recently. */
const LEAST = 300;
const HEIGHT = 110;
/** Pixels from the left edge in which a time label would overlap the value labels. */
const EDGE = 16;
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, i) => 2 ** i);

/** @type {Set<Chart>} the charts on the page */
const shown = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => shown.forEach((chart) => chart.redraw()));

export class Chart {
  /**
   * @param {{title: string, series: Series[], format: (value: number) => string, binary?: boolean, stepped?: boolean}} options
   *   `binary`: ticks are at powers of two
   */
  constructor({ title, series, format, binary = false, stepped = false }) {
    this.series = series;
    this.format = format;
    this.stepped = stepped;
    this.binary = binary;
    /** @type {uPlot.AlignedData} */
    this.data = [[], ...series.map(() => [])];
    this.canvas = h("div", { class: "chart-area" });
    this.caption = h("figcaption", { class: "chart-caption" }, h("span", { class: "chart-title" }, title));
    this.legend = series.map(({ label, stroke }) => {
      const value = h("span", { class: "chart-value" });
      this.caption.append(h("span", { class: "chart-key", "data-stroke": stroke }, label, " ", value));
      return value;
    });
    this.at = h("span", { class: "chart-at" });
    this.caption.append(this.at);
    this.element = h("figure", { class: "chart" }, this.caption, this.canvas);
    /** @type {uPlot | null} */
    this.plot = null;
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.canvas);
    shown.add(this);
  }

  /** @param {number[]} at @param {...(number | null)[]} curves one for each series, as long as `at` */
  show(at, ...curves) {
    this.data = [at, ...curves];
    this.plot?.setData(this.data, true);
    if (!this.pointed()) this.showValues(at.length - 1, false);
  }

  /** Frees the chart. */
  close() {
    shown.delete(this);
    this.sizes.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  /** The colours of the page have changed. */
  redraw() {
    this.plot?.redraw(false, true);
  }

  pointed() {
    return (
      this.plot !== null &&
      this.plot.cursor.idx !== null &&
      this.plot.cursor.idx !== undefined &&
      this.plot.cursor.left >= 0
    );
  }

  /** Makes the plot when there is room for it, and keeps it as wide as the room is. */
  fit() {
    const width = Math.floor(this.canvas.clientWidth);
    if (!width) return;
    if (!this.plot) this.plot = new uPlot(this.options(width), this.data, this.canvas);
    else if (this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** Shows the values under the pointer, or the newest. */
  updateLegend() {
    if (this.pointed()) this.showValues(this.plot.cursor.idx, true);
    else this.showValues(this.data[0].length - 1, false);
  }

  /** Writes the values at an index into the legend. @param {number | null} index @param {boolean} timed */
  showValues(index, timed) {
    this.legend.forEach((element, i) => {
      const value = index === null ? null : this.data[i + 1][index];
      element.textContent = value === null || value === undefined ? NONE : this.format(value);
    });
    this.at.textContent = timed && index !== null ? clock(this.data[0][index]).slice(0, 8) : "";
  }

  /** @param {number} width @returns {uPlot.Options} */
  options(width) {
    const axis = { stroke: () => colour("--muted"), font: AXIS_FONT, ticks: { show: false } };
    return {
      width,
      height: HEIGHT,
      legend: { show: false },
      padding: [6, 4, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: {
        x: { time: true, range: (_, min, max) => span(min, max) },
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] },
      },
      axes: [
        {
          ...axis,
          size: 22,
          gap: 3,
          space: 70,
          grid: { show: false },
          values: (plot, splits) => splits.map((at) => (plot.valToPos(at, "x") < EDGE ? "" : minute(at))),
        },
        {
          ...axis,
          size: 58,
          incrs: this.binary ? POWERS_OF_TWO : undefined,
          gap: 4,
          space: 28,
          grid: { stroke: () => colour("--line"), width: 1 },
          values: (_, splits) => splits.map((value) => this.format(value)),
        },
      ],
      series: [{}, ...this.series.map(({ stroke }, i) => this.line(STROKES[stroke], i === 0))],
      hooks: {
        setCursor: [() => this.updateLegend()],
      },
    };
  }

  /** @param {{colour: string, width: number, dash: number[]}} stroke @param {boolean} filled */
  line(stroke, filled) {
    return {
      stroke: () => colour(stroke.colour),
      width: stroke.width,
      dash: stroke.dash,
      fill: filled ? () => colour("--accent-faint") : undefined,
      points: { show: false },
      paths: this.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      spanGaps: false,
    };
  }
}

/**
 * The span that a chart shows: the part of the last hour with data, but at least LEAST seconds.
 * @param {number | null} oldest
 * @param {number | null} newest
 * @returns {[number, number]}
 */
function span(oldest, newest) {
  const end = newest ?? Date.now() / 1000;
  return [Math.max(end - HOUR, Math.min(oldest ?? end, end - LEAST)), end];
}

/** @param {number} seconds */
function minute(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 16);
}

/** A colour of the style sheet as the scheme in force has it. @param {string} variable */
function colour(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable);
}
