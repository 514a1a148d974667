/** The rows of a list near the visible part of the page; two empty rows replace those above and below. */

import { arrange, h, setAttribute, setText } from "./dom.js";

/**
 * @template T
 * @typedef {object} GridColumn
 * @property {string} id for the style sheet: its width and alignment
 * @property {string} label
 * @property {string} [title] tooltip
 * @property {string} [group] label of the group of columns it belongs to
 * @property {1 | 2 | 3 | 4} [room] 1: always there; 2: not on a phone; 3: not on a tablet; 4: only where it is wide
 * @property {(row: T) => number | string} by what it is sorted by
 * @property {(row: T) => string} [text] what a plain cell shows
 * @property {() => {element: Element, show: (row: T) => void}} [cell] makes another cell; the first column's is made here
 */

/**
 * @template T
 * @typedef {{element: Element, show: (row: T) => void, close: () => void}} Detail
 */

/**
 * @template T
 * @typedef {object} GridOptions
 * @property {string} title id of the element that names the list
 * @property {string} noun of one row
 * @property {GridColumn<T>[]} columns the first one names the row
 * @property {Record<string, (row: T) => number>} [groups] what the groups are sorted by
 * @property {(row: T) => string} key
 * @property {(row: T) => string} search the text to filter
 * @property {(row: T) => Element} [heading] what the first cell shows, if that is not plain text
 * @property {(row: T) => Detail<T>} detail what an open row shows
 * @property {{column: string, descending: boolean}} order the first one
 * @property {string} empty text for an empty list
 */

/** Rows that are made beyond the edges of what is visible. */
const MARGIN = 16;
/** With fewer rows than this left, more are made. */
const NEAR = 3;
/** Number of rows that are always made. */
const ALWAYS = 50;
/** Height of a row until one was measured, in CSS pixels. */
const USUAL_HEIGHT = 34;

/** @template T */
export class GridWindow {
  /**
   * @param {HTMLTableSectionElement} body
   * @param {GridOptions<T>} options
   * @param {Map<string, Detail<T>>} open by key
   * @param {number} heads rows of the header
   */
  constructor(body, options, open, heads) {
    this.body = body;
    this.options = options;
    this.open = open;
    this.heads = heads;
    /** @type {T[]} */
    this.rows = [];
    this.height = USUAL_HEIGHT;
    /** Number of columns that have room. */
    this.columns = options.columns.length;
    /** Whether both were measured since the page has its present width. */
    this.measured = false;
    /** @type {Map<string, {row: HTMLTableRowElement, opener: HTMLElement, cells: {show: (row: T) => void}[]}>} rows that are on the page */
    this.made = new Map();
    /** @type {Map<string, HTMLElement>} open rows' details */
    this.details = new Map();
    /** @type {Map<string, number>} their heights, in pixels */
    this.heights = new Map();
    this.above = h("tr", { class: "spacer", "aria-hidden": "true" });
    this.below = h("tr", { class: "spacer", "aria-hidden": "true" });
    this.asked = false;
    this.sizes = new ResizeObserver((entries) => this.resizedDetails(entries));
    /** @type {[number, number]} index of the first row that is on the page, and of the first after them */
    this.span = [0, 0];
    addEventListener("scroll", () => this.ask(), { passive: true });
    addEventListener("resize", () => this.resized(), { passive: true });
  }

  /** @param {T[]} rows in their order */
  show(rows) {
    this.rows = rows;
    this.render();
  }

  /** Renders with the next frame, if what is visible is not made then. */
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      const [first, last] = this.range(this.tops(), NEAR);
      if (first < this.span[0] || last > this.span[1]) this.render();
    });
  }

  /** Rows may have another height now, and room for other columns. */
  resized() {
    this.measured = false;
    this.render();
  }

  /** Makes what is near the visible part, updates it, and forgets the rest. */
  render() {
    const { key } = this.options;
    const tops = this.tops();
    const [first, last] = this.range(tops, MARGIN);
    this.span = [first, last];
    /** @type {HTMLElement[]} */
    const nodes = [this.above];
    const made = new Map();
    for (let i = first; i < last; i += 1) {
      const row = this.rows[i];
      const id = key(row);
      const parts = this.made.get(id) ?? this.make(row, id);
      made.set(id, parts);
      this.update(parts, row, i, this.open.has(id));
      nodes.push(parts.row);
      if (this.open.has(id)) nodes.push(this.detail(id, row));
    }
    nodes.push(this.below);
    this.made = made;
    this.forget();
    space(this.above, tops[first]);
    space(this.below, tops[this.rows.length] - tops[last]);
    arrange(this.body, nodes);
    const { value: sample } = made.values().next();
    if (!this.measured && sample?.row.offsetHeight) this.measure(sample.row);
  }

  /** @param {HTMLTableRowElement} row */
  measure(row) {
    this.measured = true;
    this.height = row.offsetHeight;
    this.columns = [...row.cells].filter((cell) => cell.offsetWidth).length;
    for (const detail of this.details.values()) setAttribute(detail.firstElementChild, "colspan", this.columns);
    this.render();
  }

  /** Where each row begins, in pixels from the first one; and where the last one ends. */
  tops() {
    const { key } = this.options;
    const tops = [0];
    let top = 0;
    for (const row of this.rows) {
      top += this.height;
      if (this.open.size) {
        const id = key(row);
        if (this.open.has(id)) top += this.heights.get(id) ?? 0;
      }
      tops.push(top);
    }
    return tops;
  }

  /** Which rows are visible, and so many beyond them. @param {number[]} tops @param {number} margin
   * @returns {[number, number]} */
  range(tops, margin) {
    if (this.rows.length <= ALWAYS) return [0, this.rows.length];
    const start = this.body.getBoundingClientRect().top;
    const above = -start - margin * this.height;
    const below = innerHeight - start + margin * this.height;
    const first = Math.min(lower(tops, above), this.rows.length);
    return [first, Math.max(first, Math.min(lower(tops, below) + 1, this.rows.length))];
  }

  /** @param {T} row @param {string} id */
  make(row, id) {
    const { columns, heading } = this.options;
    const element = h("tr", { "data-key": id });
    const cells = columns.map((column, i) => {
      const place = h(i ? "td" : "th", { "data-col": column.id, "data-room": column.room ?? 1, scope: !i && "row" });
      element.append(place);
      if (!i) {
        place.append(h("button", { type: "button", class: "opener" }, heading ? heading(row) : column.text(row)));
        return { show: () => {} };
      }
      if (!column.cell) return { show: (current) => setText(place, column.text(current)) };
      const cell = column.cell();
      place.append(cell.element);
      return cell;
    });
    return { row: element, opener: element.querySelector("button"), cells };
  }

  /** @param {{row: HTMLTableRowElement, opener: HTMLElement, cells: {show: (row: T) => void}[]}} parts @param {T} row @param {number} index
   * @param {boolean} open */
  update(parts, row, index, open) {
    for (const cell of parts.cells) cell.show(row);
    setAttribute(parts.row, "aria-rowindex", this.heads + index + 1);
    setAttribute(parts.opener, "aria-expanded", String(open));
    parts.row.classList.toggle("open", open);
  }

  /** @param {string} id @param {T} row */
  detail(id, row) {
    let element = this.details.get(id);
    const detail = this.open.get(id);
    if (!element) {
      element = h("tr", { class: "detail" }, h("td", { colspan: this.columns }, detail.element));
      element.dataset.of = id;
      this.details.set(id, element);
      this.sizes.observe(element);
    }
    detail.show(row);
    return element;
  }

  /** Forgets the details of rows that were closed. */
  forget() {
    for (const [id, element] of this.details) {
      if (this.open.has(id)) continue;
      this.sizes.unobserve(element);
      this.details.delete(id);
      this.heights.delete(id);
    }
  }

  /** @param {ResizeObserverEntry[]} entries */
  resizedDetails(entries) {
    for (const { target } of entries) {
      const detail = /** @type {HTMLElement} */ (target);
      if (detail.isConnected) this.heights.set(detail.dataset.of, detail.offsetHeight);
    }
    this.ask();
  }

  /** Moves the focus to the row that is `step` rows further. @param {string} id @param {1 | -1} step */
  focus(id, step) {
    const index = this.rows.findIndex((row) => this.options.key(row) === id) + step;
    if (index < 0 || index >= this.rows.length) return;
    const wanted = this.options.key(this.rows[index]);
    if (!this.made.has(wanted)) this.render(); // keys come faster than frames
    this.made.get(wanted)?.opener.focus();
  }
}

/** Index of the last value that is not above `limit`. @param {number[]} values rising @param {number} limit */
function lower(values, limit) {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (values[middle] <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** @param {HTMLElement} row @param {number} height in pixels */
function space(row, height) {
  row.hidden = height <= 0;
  row.style.height = `${height}px`;
}
