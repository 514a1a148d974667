/** A list of named facts. */

import { h, setText } from "./dom.js";
import { visible } from "./format.js";

export class Facts {
  /** @param {Element} place */
  constructor(place) {
    this.list = h("dl", { class: "facts" });
    place.append(this.list);
    /** @type {Map<string, {row: HTMLElement, value: Element}>} */
    this.rows = new Map();
  }

  /** Shows a fact; hides it if the text is empty. @param {string} label @param {string} text
   * @param {string} [className] */
  show(label, text, className = "") {
    let fact = this.rows.get(label);
    if (!fact) {
      const value = h("bdi");
      const row = h("div", {}, h("dt", {}, label), h("dd", className ? { class: className } : {}, value));
      fact = { row, value };
      this.rows.set(label, fact);
      this.list.append(row);
    }
    fact.row.hidden = !text;
    setText(fact.value, visible(text));
  }
}
