// @ts-check
// A page that is hidden costs the server nothing: what asks again and again waits here until it is looked at.

/** @returns {Promise<unknown>} Resolved once the page is seen; at once if it is. */
export function inSight() {
  return document.hidden ? new Promise((done) => document.addEventListener("visibilitychange", done, { once: true })) : Promise.resolve();
}
