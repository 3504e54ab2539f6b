// @ts-check
// The page's pictures, drawn in the colour of the text beside them; they say nothing to a screen reader, their buttons do.
import { html } from "./ui.js";

const PATHS = {
  terminal: "M1 2h14v12H1zM2.5 3.5v9h11v-9zM4 5.2L6.8 8 4 10.8l-.9-.9L5 8 3.1 6.1zM7.5 10h4v1.2h-4z",
  pause: "M5 3h2v10H5zM9 3h2v10H9z",
  resume: "M5 3l8 5-8 5z",
  stop: "M4 4h8v8H4z",
  kill: "M4.5 3L8 6.5 11.5 3 13 4.5 9.5 8l3.5 3.5-1.5 1.5L8 9.5 4.5 13 3 11.5 6.5 8 3 4.5z",
};

/** @param {{name: keyof typeof PATHS}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${PATHS[name]} fill="currentColor" fill-rule="evenodd" /></svg>`;
}
