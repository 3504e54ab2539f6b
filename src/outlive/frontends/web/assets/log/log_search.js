// @ts-check
// Looking for a text in the output that is shown: the server reads the log, the page shows one hit after the other.
import { refine } from "../base/address.js";
import { output } from "../base/output.js";
import { signal } from "../base/ui.js";
import { log, showAt } from "./log_window.js";

/** @typedef {{type: string, offset: number, end: number, at: number}} Match */

const MATCHES = 100; // of one answer
const NONE = { id: "", text: "", matches: /** @type {Match[]} */ ([]), index: -1, cursor: "0", more: false, isBusy: false };

/** What was looked for last, and which hit is shown. */
export const found = signal(NONE);

/** Look for a text from the beginning on, and show the first hit. @param {string} text */
export async function search(text) {
  found.value = { ...NONE, id: log.value.id, text, more: text !== "" };
  refine({ find: text });
  if (text) await step(1);
}

/** Show the next hit (1) or the one before (-1). @param {1 | -1} by */
export async function step(by) {
  const asked = found.value.text;
  while (found.value.index + by >= found.value.matches.length && found.value.more) {
    const { id, text, cursor } = found.value;
    found.value = { ...found.value, isBusy: true };
    // An answer looks through a gigabyte at most: the next one goes on.
    const page = await output(id, { grep: text, ignore_case: "true", matches: MATCHES, cursor });
    if (found.value.text !== asked || found.value.id !== id) return;
    found.value = { ...found.value, matches: [...found.value.matches, ...page.matches], cursor: page.cursor, more: page.more, isBusy: false };
  }
  const index = Math.max(0, Math.min(found.value.index + by, found.value.matches.length - 1));
  const match = found.value.matches[index];
  if (!match) return;
  found.value = { ...found.value, index };
  refine({ lines: `${match.at}-${match.at + match.end - match.offset + 1}`, at: "" });
  await showAt(match.at);
}

/** Stop looking: what is on its way is not waited for. */
export function stopSearch() {
  found.value = { ...found.value, text: "", more: false, isBusy: false };
}

/** @returns {string} "3 of 100+". */
export function places() {
  const { text, matches, index, more, isBusy, cursor } = found.value;
  if (!text) return "";
  if (isBusy && matches.length === 0) return `Looking behind byte ${cursor.split(".")[0]}`;
  return matches.length ? `${index + 1} of ${matches.length}${more ? "+" : ""}` : "Nothing found";
}
