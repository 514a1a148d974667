/** Polls, one request at a time, only while the page is visible. */

import { setText } from "./dom.js";

/** @template T */
export class Poller {
  /**
   * @param {{every: number, load: () => Promise<T>, answered: (answer: T) => void, failed: (error: Error) => void}} options
   *   `every`: milliseconds between the beginnings of two requests
   */
  constructor({ every, load, answered, failed }) {
    this.every = every;
    this.load = load;
    this.answered = answered;
    this.failed = failed;
    this.timer = 0;
    this.asking = false;
    document.addEventListener("visibilitychange", () => this.resume());
  }

  /** Asks now, unless the page is hidden or a request is under way. */
  async resume() {
    clearTimeout(this.timer);
    if (document.hidden || this.asking) return;
    this.asking = true;
    const began = performance.now();
    const report = await outcome(this);
    this.asking = false;
    if (!document.hidden) {
      this.timer = setTimeout(() => this.resume(), Math.max(50, this.every - (performance.now() - began)));
    }
    report();
  }
}

/**
 * Loads, and returns a function that reports the outcome: an error while reporting is no error of loading.
 * @template T
 * @param {{load: () => Promise<T>, answered: (answer: T) => void, failed: (error: Error) => void}} asker
 */
async function outcome(asker) {
  try {
    const answer = await asker.load();
    return () => asker.answered(answer);
  } catch (error) {
    return () => asker.failed(error);
  }
}

/**
 * Loads the data of an open part of the page when ticked, at most once per `every` milliseconds.
 * @template T
 */
export class Refresher {
  /**
   * @param {number} every
   * @param {() => Promise<T>} load
   * @param {(answer: T) => void} answered
   * @param {Element} note shows why there is no data
   * @param {string} [failure] what that means
   */
  constructor(every, load, answered, note, failure = "Not available") {
    this.every = every;
    this.load = load;
    this.answered = answered;
    /** @param {Error} error */
    this.failed = (error) => setText(note, `${failure}: ${error.message}.`);
    this.next = 0;
    this.asking = false;
  }

  /** Makes the next tick load. */
  expire() {
    this.next = 0;
  }

  /** Called with each new stat document. */
  async tick() {
    const now = performance.now();
    if (this.asking || now < this.next) return;
    this.next = now + this.every;
    this.asking = true;
    const report = await outcome(this);
    this.asking = false;
    report();
  }
}
