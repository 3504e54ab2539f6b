// @ts-check
// What every view is made with: templates, components and values that change, from the libraries beside us.
import htm from "../vendor/htm.mjs";
import { h } from "../vendor/preact.mjs";

export { render } from "../vendor/preact.mjs";
export { useEffect, useLayoutEffect, useRef, useState } from "../vendor/hooks.mjs";
export { batch, computed, effect, signal } from "../vendor/signals-core.mjs";

/** Makes elements of a template: html`<p class="x">${text}</p>`. A text stays a text, whatever is in it. */
export const html = htm.bind(h);
