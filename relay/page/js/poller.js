/** Asks again and again, one request at a time, and only while the page is seen. */

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
    const tell = await outcome(this);
    this.asking = false;
    if (!document.hidden) {
      this.timer = setTimeout(() => this.resume(), Math.max(50, this.every - (performance.now() - began)));
    }
    tell();
  }
}

/**
 * Loads; what comes of it is told apart from that, so that a fault in telling is not taken for one in loading.
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
 * Loads something that an open part of the page shows, at most each so many milliseconds, when told that time passed.
 * @template T
 */
export class Refresher {
  /**
   * @param {number} every
   * @param {() => Promise<T>} load
   * @param {(answer: T) => void} answered
   * @param {(error: Error) => void} failed
   */
  constructor(every, load, answered, failed) {
    this.every = every;
    this.load = load;
    this.answered = answered;
    this.failed = failed;
    this.next = 0;
    this.asking = false;
  }

  /** What is shown is out of date: the next tick loads. */
  expire() {
    this.next = 0;
  }

  /** Called with each new stat document. */
  async tick() {
    const now = performance.now();
    if (this.asking || now < this.next) return;
    this.next = now + this.every;
    this.asking = true;
    const tell = await outcome(this);
    this.asking = false;
    tell();
  }
}
