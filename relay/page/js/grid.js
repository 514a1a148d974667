/** A list with sorting, a filter and row details, fast with thousands of rows. */

import { h, setAttribute, setText } from "./dom.js";
import { exact, plural } from "./format.js";
import { keepOrder, matching, sorted } from "./order.js";
import { GridWindow } from "./window.js";

/** @template T @typedef {import("./window.js").GridOptions<T>} GridOptions */
/** @template T @typedef {import("./window.js").Detail<T>} Detail */

/** Whether the pointer can hover: after a touch, :hover remains. */
const pointer = matchMedia("(hover: hover)");
/** Number of rows shown at first. */
const FEW = 25;

/**
 * A column of figures, sorted by the number that `show` writes.
 * @template T
 * @param {string} id
 * @param {string} label
 * @param {(row: T) => number} by
 * @param {(figure: number) => string} show
 * @param {Partial<import("./window.js").GridColumn<T>>} [more]
 * @returns {import("./window.js").GridColumn<T>}
 */
export function figure(id, label, by, show, more = {}) {
  return { id, label, by, text: (row) => show(by(row)), ...more };
}

/** @template T */
export class Grid {
  /** @param {Element} place @param {GridOptions<T>} options */
  constructor(place, options) {
    this.options = options;
    this.order = options.order;
    /** @type {T[]} */
    this.rows = [];
    this.query = "";
    this.all = false;
    /** @type {string[]} keys in the order shown */
    this.shown = [];
    /** @type {Map<string, Detail<T>>} */
    this.open = new Map();
    this.body = h("tbody");
    this.table = h("table", { class: "grid", "aria-labelledby": options.title }, ...this.head(), this.body);
    this.more = h("button", { type: "button", class: "more" });
    this.note = h("p", { class: "note" });
    this.more.addEventListener("click", () => this.showAll(!this.all));
    place.append(this.table, this.note, this.more);
    this.heads = this.table.tHead.rows.length;
    this.window = new GridWindow(this.body, options, this.open, this.heads);
    this.body.addEventListener("click", (event) => this.clicked(event));
    this.body.addEventListener("keydown", (event) => this.moved(event));
  }

  /** New figures. @param {T[]} rows */
  show(rows) {
    this.rows = rows;
    this.closeGone();
    this.arrange(this.busy());
  }

  /** @param {string} query */
  filter(query) {
    this.query = query;
    this.arrange(false);
  }

  /** Closes the details of rows that no longer exist. */
  closeGone() {
    if (!this.open.size) return;
    const there = new Set(this.rows.map(this.options.key));
    for (const [id, detail] of this.open) {
      if (there.has(id)) continue;
      this.open.delete(id);
      detail.close();
    }
  }

  /** The user points at or works in a row: rows must keep their order. */
  busy() {
    return (pointer.matches && this.body.matches(":hover")) || this.body.contains(document.activeElement);
  }

  /** @param {boolean} still rows keep their order */
  arrange(still) {
    const { key, search, noun, empty } = this.options;
    const found = matching(this.rows, this.query, search);
    const order = { by: this.by(), key, descending: this.order.descending };
    const rows = still ? keepOrder(found, this.shown, key) : sorted(found, order);
    this.shown = rows.map(key);
    const few = this.all ? rows : rows.slice(0, FEW);
    setAttribute(this.table, "aria-rowcount", rows.length + this.heads);
    this.table.hidden = !rows.length;
    this.note.hidden = rows.length > 0;
    setText(this.note, this.rows.length ? `None of ${plural(this.rows.length, noun)} matches the filter.` : empty);
    this.more.hidden = rows.length <= FEW;
    setText(this.more, this.all ? `Show the first ${FEW} only` : `Show all ${exact(rows.length)}`);
    this.window.show(few);
  }

  /** Number of rows that match the filter. */
  get matches() {
    return this.shown.length;
  }

  /** @param {boolean} all */
  showAll(all) {
    this.all = all;
    this.arrange(false);
  }

  /** @returns {(row: T) => number | string} */
  by() {
    const { columns, groups = {} } = this.options;
    return groups[this.order.column] ?? columns.find(({ id }) => id === this.order.column).by;
  }

  /** Header of one row, or of two if columns have groups. */
  head() {
    const { columns } = this.options;
    const grouped = columns.some(({ group }) => group);
    const upper = h("tr");
    const lower = h("tr");
    const columnGroup = h("colgroup");
    let last;
    for (const column of columns) {
      const { id, group, room = 1 } = column;
      columnGroup.append(h("col", { "data-col": id, "data-room": room }));
      if (!group) {
        upper.append(this.headCell(id, column.label, column.title, room, grouped ? { rowspan: 2 } : {}));
        continue;
      }
      if (group !== last) {
        const span = columns.filter((other) => other.group === group).length;
        upper.append(this.headCell(group, group, "", room, { colspan: span, scope: "colgroup", class: "group" }));
      }
      last = group;
      lower.append(this.headCell(id, column.label, column.title ?? `${column.label}, ${group}`, room, {}));
    }
    return [columnGroup, h("thead", {}, upper, ...(grouped ? [lower] : []))];
  }

  /** @param {string} id @param {string} label @param {string | undefined} title @param {number} room
   * @param {Record<string, string | number>} attributes */
  headCell(id, label, title, room, attributes) {
    const button = h("button", { type: "button", title: title || false }, label);
    const cell = h("th", { scope: "col", "data-col": id, "data-room": room, ...attributes }, button);
    button.addEventListener("click", () => this.sort(id));
    this.mark(cell);
    return cell;
  }

  /** Sorts by a column, the other way if it is sorted by it already. @param {string} id */
  sort(id) {
    const same = this.order.column === id;
    this.order = { column: id, descending: same ? !this.order.descending : id !== this.options.columns[0].id };
    for (const row of this.table.tHead.rows) for (const cell of row.cells) this.mark(cell);
    this.arrange(false);
  }

  /** @param {HTMLTableCellElement} cell of the header */
  mark(cell) {
    const sorts = cell.dataset.col === this.order.column;
    setAttribute(cell, "aria-sort", sorts && (this.order.descending ? "descending" : "ascending"));
  }

  /** @param {MouseEvent} event */
  clicked(event) {
    const row = rowOf(event);
    if (row?.dataset.key && !String(getSelection())) this.toggle(row);
  }

  /** Arrow keys go from row to row, Escape closes one. @param {KeyboardEvent} event */
  moved(event) {
    if (event.key === "Escape") {
      this.escape(rowOf(event));
      return;
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const row = rowOf(event);
    if (!step || !row?.dataset.key) return;
    event.preventDefault();
    this.window.focus(row.dataset.key, step);
  }

  /** @param {HTMLElement | null} from the row in which the key was pressed, or its detail */
  escape(from) {
    const id = from?.dataset.of ?? from?.dataset.key;
    const row = [...this.body.rows].find((one) => one.dataset.key === id);
    if (!row || !this.open.has(id)) return;
    row.querySelector("button").focus();
    this.toggle(row);
  }

  /** @param {HTMLElement} row */
  toggle(row) {
    const id = row.dataset.key;
    const detail = this.open.get(id);
    if (detail) {
      this.open.delete(id);
      detail.close();
    } else {
      this.open.set(id, this.options.detail(this.rows.find((one) => this.options.key(one) === id)));
    }
    this.window.render();
  }
}

/** The row of a list in which something happened; not one of a table in its detail. @param {Event} event */
function rowOf(event) {
  const place = /** @type {Element} */ (event.target);
  return /** @type {HTMLTableRowElement | null} */ (place.closest(".grid > tbody > tr"));
}
