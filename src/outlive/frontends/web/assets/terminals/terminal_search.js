// @ts-check
// Looking for a text in what a terminal has shown, as far as the page keeps it (xterm.js's addon-search).
import { html, signal } from "../base/ui.js";

/** @typedef {import("../vendor/addon-search.mjs").SearchAddon} SearchAddon */

/** Whether the field is shown. */
export const isSearching = signal(false);
/** What it found: "3 of 12". */
const places = signal("");
const OPTIONS = {
  decorations: { matchBackground: "#7d4e00", matchOverviewRuler: "#7d4e00", activeMatchBackground: "#0b57d0", activeMatchColorOverviewRuler: "#0b57d0" },
};
/** @type {SearchAddon | null} */
let addon = null;

/** @param {SearchAddon | null} found What searches the terminal that is shown. */
export function searchWith(found) {
  addon = found;
  isSearching.value = false;
  places.value = "";
  found?.onDidChangeResults(({ resultIndex, resultCount }) => {
    places.value = resultCount ? `${resultIndex < 0 ? "many" : resultIndex + 1} of ${resultCount}` : "Nothing found";
  });
}

/** @param {{leave: () => void}} props `leave` gives the terminal the keyboard back. */
export function TerminalSearch({ leave }) {
  if (!isSearching.value) return null;
  const close = () => {
    isSearching.value = false;
    addon?.clearDecorations();
    places.value = "";
    leave();
  };
  /** @type {HTMLInputElement | null} */
  let field = null;
  const step = (/** @type {boolean} */ isBack) => {
    if (!field?.value) return;
    if (isBack) addon?.findPrevious(field.value, OPTIONS);
    else addon?.findNext(field.value, OPTIONS);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter") step(!event.shiftKey);
    else return;
    event.preventDefault();
  };
  return html`<form class="bar" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()} onKeyDown=${keys}>
    <input type="search" name="terminal-find" placeholder="Search in the terminal" aria-label="Search in the terminal" autofocus ref=${(/** @type {HTMLInputElement | null} */ found) => (field = found)} />
    <button type="button" aria-label="Hit before" onClick=${() => step(true)}>↑</button>
    <button type="button" aria-label="Next hit" onClick=${() => step(false)}>↓</button>
    <output aria-live="polite">${places.value}</output>
    <button type="button" class="quiet" onClick=${close}>Close</button>
  </form>`;
}
