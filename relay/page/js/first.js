/** Requests the first document while the other modules load. */

import { stat } from "./api.js";

/** @type {ReturnType<typeof stat> | null} */
let first = stat();
first.catch(() => {}); // `next` reports it

/** The stat document: first the one requested above, then new ones. */
export function next() {
  const document = first ?? stat();
  first = null;
  return document;
}
