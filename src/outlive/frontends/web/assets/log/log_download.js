// @ts-check
// The whole output into a file, and a part of it to the clipboard. However large it is, it passes through: the tab holds none of it.
import { output } from "../base/output.js";
import { token } from "../base/token.js";
import { signal } from "../base/ui.js";
import { piecesOf } from "./log_model.js";

/** @typedef {"raw" | "clean" | "asciicast"} Form As it was written; without colours and what was overwritten; or a recording. */

const ENDINGS = { raw: ".log", clean: ".txt", asciicast: ".cast" };


const MOST_COPIED_BYTES = 4 * 1024 * 1024; // a clipboard is no file
const EACH_BYTES = 1024 * 1024; // between two looks of the progress

/** How many bytes were saved of a file on its way; null where there is none. */
export const saved = signal(/** @type {number | null} */ (null));
/** @type {AbortController | null} */
let saving = null;

/** Stop the file on its way. */
export function stopSaving() {
  saving?.abort();
}

/**
 * Save the whole output. The token goes in a header: an address with it would be kept in histories.
 * @param {string} id
 * @param {Form} form
 */
export async function save(id, form) {
  const name = `${id.slice(-6)}${ENDINGS[form]}`;
  /** @type {any} */
  const picker = /** @type {any} */ (globalThis).showSaveFilePicker;
  try {
    // Asked first: a browser opens the question at a click only.
    const file = picker ? await picker({ suggestedName: name }) : null;
    saving = new AbortController();
    saved.value = 0;
    const address = `/v1/processes/${encodeURIComponent(id)}/output?format=${form}&skip_gaps=true`;
    const answer = await fetch(address, { headers: { Authorization: `Bearer ${token()}` }, signal: saving.signal });
    if (!answer.ok || !answer.body) throw Object.assign(new Error((await answer.json()).detail), { hint: "" });
    const counted = answer.body.pipeThrough(counter());
    if (file) await counted.pipeTo(await file.createWritable());
    // Browsers without that question keep the bytes on disk, not in the tab, until they are saved.
    else offer(await new Response(counted).blob(), name);
  } catch (error) {
    if (/** @type {Error} */ (error).name !== "AbortError") throw error;
  } finally {
    saved.value = saving = null;
  }
}

/** @returns {TransformStream<Uint8Array, Uint8Array>} Passes bytes on, and counts them. */
function counter() {
  let count = 0;
  let told = 0;
  return new TransformStream({
    transform(piece, controller) {
      count += piece.byteLength;
      if (count - told >= EACH_BYTES) saved.value = told = count;
      controller.enqueue(piece);
    },
  });
}

/** @param {Blob} blob @param {string} name */
function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser has opened it by then
}

/**
 * Return a part of the output as text, as it was written.
 * @param {string} id
 * @param {{from: number, to: number}} range
 */
export async function textBetween(id, { from, to }) {
  const decoder = new TextDecoder();
  const last = Math.min(to, from + MOST_COPIED_BYTES);
  let text = "";
  for (let at = from; at < last; ) {
    const page = await output(id, { at, limit: Math.min(262_144, last - at) });
    const pieces = piecesOf(page.chunks, at);
    if (pieces.length === 0) break;
    for (const { bytes, length } of pieces) {
      if (bytes) text += decoder.decode(bytes.subarray(0, last - at), { stream: true });
      at += length;
    }
  }
  return text + decoder.decode();
}

/** @param {string} text */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Over plain HTTP from another machine a page has no clipboard but this one.
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
