/** Marks of a state: each has a shape of its own, so that colour alone distinguishes none. */

import { level } from "./states.js";

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {"ok" | "busy" | "idle" | "warn" | "stop"} Level */

/** @type {Record<Level, string>} paths on 16 by 16 */
const SHAPES = {
  ok: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm3.6 4.9-4.2 4.4a.7.7 0 0 1-1 0L4.4 8.7a.7.7 0 1 1 1-1l1.5 1.6 3.7-3.9a.7.7 0 0 1 1 1Z",
  busy: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 1.6v9.8a4.9 4.9 0 0 1 0-9.8Z",
  idle: "M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm0 1.6a4.9 4.9 0 1 1 0 9.8 4.9 4.9 0 0 1 0-9.8Z",
  warn: "M7.1 1.8 1 13a1 1 0 0 0 .9 1.5h12.2A1 1 0 0 0 15 13L8.900 1.800a1 1 0 0 0-1.800 0ZM7.300 5.500h1.400v4.500H7.300Zm0 5.500h1.400v1.400H7.300Z",
  stop: "M5.300 1.500h5.400l3.800 3.800v5.400l-3.800 3.800H5.300l-3.800-3.800V5.300Zm.2 3L4.500 5.500 7 8l-2.500 2.500 1 1L8 9l2.500 2.500 1-1L9 8l2.500-2.500-1-1L8 7Z",
};

/** @param {Level} level */
export function icon(level) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("fill-rule", "evenodd");
  svg.append(path);
  shape(svg, level);
  return svg;
}

/** @param {SVGElement} svg @param {Level} level */
function shape(svg, level) {
  svg.dataset.level = level;
  svg.firstElementChild.setAttribute("d", SHAPES[level]);
}

/** A state as mark and words. */
export class Badge {
  constructor() {
    this.element = document.createElement("span");
    this.element.className = "badge";
    this.icon = icon("idle");
    this.words = document.createElement("span");
    this.element.append(this.icon, this.words);
  }

  /** @param {Level} level @param {string} words */
  show(level, words) {
    if (this.icon.dataset.level !== level) shape(this.icon, level);
    this.element.dataset.level = level;
    if (this.words.textContent !== words) this.words.textContent = words;
  }
}

/** A cell with a row's state. @template T @param {(row: T) => string} state */
export function stateCell(state) {
  const badge = new Badge();
  /** @param {T} row */
  const show = (row) => badge.show(level(state(row)), state(row).replace("_", " "));
  return { element: badge.element, show };
}
