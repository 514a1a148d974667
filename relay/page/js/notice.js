/** A finding as a block of text: what, why, and what to do. */

import { h, setAttribute, setText } from "./dom.js";
import { visible } from "./format.js";
import { icon } from "./icon.js";

/** @typedef {import("./health.js").Finding} Finding */

/** @param {Finding} finding */
export function makeNotice({ level, alert = false }) {
  return h(
    "div",
    { class: "notice", role: alert && "alert" },
    icon(level),
    h("div", {}, h("strong", {}, h("bdi")), h("p", { class: "why" }, h("bdi")), h("p", { class: "hint" }, h("bdi"))),
  );
}

/** @param {HTMLElement} element @param {Finding} finding */
export function showNotice(element, { level, title, text, hint }) {
  if (element.dataset.level !== level) element.firstElementChild.replaceWith(icon(level));
  setAttribute(element, "data-level", level);
  const [heading, why, remedy] = /** @type {Iterable<HTMLElement>} */ (element.lastElementChild.children);
  setText(heading.firstElementChild, visible(title));
  setText(why.firstElementChild, visible(text));
  setText(remedy.firstElementChild, visible(hint));
  why.hidden = !text;
  remedy.hidden = !hint;
}
