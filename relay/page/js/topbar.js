/** The fixed bar: state, source, age of the figures, and the filter of all lists. */

import { byId, setText } from "./dom.js";
import { exact, visible } from "./format.js";
import { Badge } from "./icon.js";
import { level } from "./states.js";

/** @typedef {import("./grid.js").Grid<any>} Grid */

export class Topbar {
  /** @param {Record<string, Grid>} grids that the filter applies to, by the id of their section */
  constructor(grids) {
    this.grids = grids;
    this.state = new Badge();
    this.fresh = new Badge();
    byId("state").append(this.state.element);
    byId("fresh").append(this.fresh.element);
    this.source = byId("where");
    this.filter = /** @type {HTMLInputElement} */ (byId("filter"));
    this.filter.addEventListener("input", () => this.apply());
    this.filter.addEventListener("keydown", (event) => event.key === "Escape" && this.clear());
    document.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** @param {import("./rates.js").View} view */
  update({ stat: { state, source } }) {
    this.state.show(level(state), state);
    setText(this.source, visible(`${source.host}:${source.port}`));
    this.fresh.show("ok", "live");
    this.count();
  }

  /** @param {string} words age of the figures */
  stale(words) {
    this.state.show("idle", "unknown");
    this.fresh.show("stop", words);
  }

  /** Gives the filter's text to the lists. */
  apply() {
    for (const grid of Object.values(this.grids)) grid.filter(this.filter.value);
    this.count();
  }

  clear() {
    this.filter.value = "";
    this.apply();
  }

  /** Shows the number of rows beside each heading and in the navigation. */
  count() {
    for (const [section, grid] of Object.entries(this.grids)) {
      const all = exact(grid.rows.length);
      const text = this.filter.value.trim() ? `${exact(grid.matches)} of ${all}` : all;
      for (const place of document.querySelectorAll(`[data-count="${section}"]`)) setText(place, text);
    }
  }

  /** A slash moves the focus to the filter, unless the user types it in a field. @param {KeyboardEvent} event */
  pressed(event) {
    const typing = event.target instanceof Element && event.target.matches("input, textarea, select");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.filter.focus();
    this.filter.select();
  }
}
