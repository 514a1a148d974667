/** Makes and changes elements. Data of the relay becomes text, never markup. */

import { qualified, visible } from "./format.js";

/**
 * An element with attributes and children; strings become text.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean>} [attributes] `false` leaves one out, `true` sets it empty
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children);
  return element;
}

/** The element with this id, which index.html has. @param {string} id */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return found;
}

/** Sets the text if it differs. @param {Node} node @param {string} text */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes an attribute, if that changes anything. @param {Element} element @param {string} name
 * @param {string | number | boolean} value */
export function setAttribute(element, name, value) {
  if (value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** A name from outside, isolated from the direction of the text around it. @param {string} text */
export function name(text) {
  return h("bdi", {}, visible(text) || "(no name)");
}

/** @param {string} schema @param {string} table */
export function tableName(schema, table) {
  return h("bdi", {}, qualified(schema, table));
}

/** A table with a header of one row. @param {string} className @param {string[]} heads
 * @param {HTMLTableSectionElement} body */
export function makeTable(className, heads, body) {
  const cells = heads.map((label) => h("th", { scope: "col" }, label));
  return h("table", { class: className }, h("thead", {}, h("tr", {}, ...cells)), body);
}

/** A frame in which a wide table scrolls. @param {string} label @param {HTMLElement} content */
export function scrolling(label, content) {
  return h("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": label }, content);
}

/**
 * Keeps the children of `parent` as `items`, one each by key, made once and then updated.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @param {(item: T) => HTMLElement} make
 * @param {(element: HTMLElement, item: T) => void} [update] none: an element never changes
 */
export function reconcile(parent, items, key, make, update = () => {}) {
  const children = /** @type {HTMLElement[]} */ ([...parent.children]);
  const known = new Map(children.map((child) => [child.dataset.key, child]));
  const wanted = items.map((item) => {
    const id = key(item);
    const child = known.get(id) ?? make(item);
    known.delete(id);
    child.dataset.key = id;
    update(child, item);
    return child;
  });
  for (const child of known.values()) child.remove();
  arrange(parent, wanted);
}

/** Puts `nodes` into `parent` in this order. Nodes in the right place are not touched, so they keep the focus.
 * @param {Element} parent @param {Node[]} nodes */
export function arrange(parent, nodes) {
  const keep = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!keep.has(child)) child.remove();
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
}
