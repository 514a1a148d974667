/** Asks for the first document while the page's other modules are still on their way. */

import { stat } from "./api.js";

/** @type {ReturnType<typeof stat> | null} */
let first = stat();
first.catch(() => {}); // whoever takes it is told

/** The stat document: the one asked for first, then new ones. */
export function next() {
  const document = first ?? stat();
  first = null;
  return document;
}
