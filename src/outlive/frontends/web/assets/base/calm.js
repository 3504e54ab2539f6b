// @ts-check
// After a change nothing is taken for a moment: what is pressed or typed just then may be meant for what stood there before.
import { signal } from "./ui.js";

const CALM_MS = 700; // so long a finger may be on its way
/** When nothing has changed yet. */
export const NEVER = -Infinity;
const passed = signal(0); // counts the moments that are over: what is drawn by `isCalm` is drawn anew then

/** Say that something has changed. @returns {number} When, for `isCalm`. */
export function stir() {
  const at = performance.now();
  const wake = () => {
    if (performance.now() - at < CALM_MS) setTimeout(wake, 1); // two clocks: one can be a little early
    else passed.value += 1;
  };
  setTimeout(wake, CALM_MS);
  return at;
}

/** @param {number} at What `stir` has returned. @returns {boolean} Whether that is long enough ago. */
export function isCalm(at) {
  void passed.value;
  return performance.now() - at >= CALM_MS;
}
