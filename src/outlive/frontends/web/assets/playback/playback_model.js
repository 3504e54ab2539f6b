// @ts-check
// What is played of a recording: which of its pieces are due at a time, and in which size they were drawn. Pure.

/** @typedef {{time: number, offset: number, bytes: Uint8Array}} Frame A piece of what a terminal wrote, and when (milliseconds since 1970). */
/** @typedef {{at: number, rows: number, cols: number}} Size From byte `at` of the output on. */

const UNKNOWN = { rows: 24, cols: 80 }; // what terminals are until they are given another size
export const SHORT_MS = 1000; // so much of a pause is left where pauses are skipped

/** @param {Size[]} sizes Oldest first. @param {number} offset @returns {{rows: number, cols: number}} */
export function sizeAt(sizes, offset) {
  return sizes.findLast((one) => one.at <= offset) ?? sizes[0] ?? UNKNOWN;
}

/** @param {Frame[]} frames Oldest first. @param {number} now @returns {number} How many of them are due. */
export function due(frames, now) {
  const first = frames.findIndex((one) => one.time > now);
  return first < 0 ? frames.length : first;
}

/**
 * Return the time of a recording when some more of the clock's has passed.
 * @param {number} now
 * @param {{passed: number, speed: number, next: number | null, end: number, skips: boolean}} how `passed` by the clock; `next`: when the next
 *   piece is due. `skips`: of a long pause before it a second is left.
 */
export function later(now, { passed, speed, next, end, skips }) {
  const then = now + passed * speed;
  const least = skips && next !== null ? next - SHORT_MS * speed : 0;
  return Math.min(end, Math.max(then, least));
}

/** @param {number} milliseconds @returns {string} "1:02:03" */
export function lengthOf(milliseconds) {
  const seconds = Math.floor(Math.max(0, milliseconds) / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  if (!parts[0]) parts.shift();
  return parts.map((one, place) => (place ? String(one).padStart(2, "0") : String(one))).join(":");
}
