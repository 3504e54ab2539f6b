// @ts-check
// What the address says behind "#": which view, of what, with which filter. Nothing secret, and nothing that acts when it is opened. Pure
// but for `place`, which follows the address.
import { signal } from "./ui.js";

/** @typedef {{view: string, id: string, second?: string, query: Record<string, string>}} Place `second`: another process, where two are looked at. */

/**
 * @param {string} hash "#/log/01k…?q=make": view, process, and a query.
 * @returns {Place}
 */
export function parsePlace(hash) {
  const [path = "", query = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [view = "", id = "", second = ""] = path.split("/", 3);
  return { view: view || "list", id: decode(id), ...(second && { second: decode(second) }), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * @param {Place} place
 * @returns {string} Its address, without what is empty.
 */
export function formatPlace({ view, id, second = "", query }) {
  const kept = Object.entries(query).filter(([, value]) => value !== "");
  const words = new URLSearchParams(kept).toString();
  const ids = [id, second].filter(Boolean).map((one) => `/${encodeURIComponent(one)}`);
  return `#/${view}${ids.join("")}${words && `?${words}`}`;
}

/** Where the page is. */
export const place = signal(parsePlace(typeof location === "undefined" ? "" : location.hash));

/** Follow the address from now on. */
export function followAddress() {
  addEventListener("hashchange", () => (place.value = parsePlace(location.hash)));
}

/**
 * Change a part of the query, in place: typing in a filter leaves one entry in the history.
 * @param {Record<string, string>} change
 */
export function refine(change) {
  const next = { ...place.value, query: { ...place.value.query, ...change } };
  history.replaceState(null, "", formatPlace(next));
  place.value = next;
}
