// @ts-check
// How large a terminal is drawn: a viewer that holds it gives it the size of its window; the others draw the size that it has, in the middle,
// with smaller letters where the window is smaller, and scroll where those would be too small to read.

/** @typedef {{rows: number, cols: number}} Size */

export const FONT_PX = 14;
const SMALLEST_PX = 7;

/**
 * Return the letters' size with which a terminal fits. Pure.
 * @param {Size} wanted The terminal's size.
 * @param {Size} room What fits with letters of `FONT_PX`.
 */
export function fontFor(wanted, room) {
  const share = Math.min(1, room.cols / wanted.cols, room.rows / wanted.rows);
  return Math.max(SMALLEST_PX, Math.floor(FONT_PX * share));
}

/** The sizes that this viewer gave: the server repeats each, also when the window has another one by then. */
export class GivenSizes {
  /** @type {Set<string>} */
  #given = new Set();
  #last = "";

  /** @param {Size} size */
  give({ rows, cols }) {
    this.#last = `${rows}x${cols}`;
    this.#given.add(this.#last);
  }

  /** @param {Size} size @returns {boolean} Whether a size comes from elsewhere. */
  isForeign({ rows, cols }) {
    const told = `${rows}x${cols}`;
    const isOwn = this.#given.has(told);
    // Behind the newest one no older ones come.
    if (told === this.#last) this.#given.clear();
    return !isOwn && told !== this.#last;
  }
}
