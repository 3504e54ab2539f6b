// @ts-check
// Files that are dropped on a terminal: sent into its process's working folder (docs/rest.md), and named at the cursor, in quotes, without Enter.
import { complain } from "../base/controls.js";
import { token } from "../base/token.js";
import { html, signal } from "../base/ui.js";

/** @typedef {{id: string, file: File, type: (text: string) => void}} Upload */

/** What is on its way, and what has a name that is taken. */
const going = signal(/** @type {string[]} */ ([]));
const taken = signal(/** @type {Upload[]} */ ([]));

/** @param {string} path @returns {string} As a shell reads one word. Pure. */
export function shellWord(path) {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** @param {Upload} upload @param {boolean} replace */
async function send(upload, replace) {
  const { id, file, type } = upload;
  going.value = [...going.value, file.name];
  try {
    const query = new URLSearchParams({ name: file.name, ...(replace && { replace: "true" }) });
    const headers = { Authorization: `Bearer ${token()}`, "Content-Type": "application/octet-stream" };
    const answer = await fetch(`/v1/processes/${encodeURIComponent(id)}/files?${query}`, { method: "POST", headers, body: file });
    const told = await answer.json();
    if (answer.ok) type(`${shellWord(told.path)} `);
    else if (told.slug === "file_exists") taken.value = [...taken.value, upload];
    else complain(`${told.detail} ${told.hint ?? ""}`);
  } catch (error) {
    complain(`${file.name} was not sent: ${/** @type {Error} */ (error).message}`);
  } finally {
    going.value = going.value.filter((one) => one !== file.name);
  }
}

/**
 * Take files that are dropped on an element.
 * @param {HTMLElement} element
 * @param {string} id
 * @param {(text: string) => void} type
 */
export function takeDrops(element, id, type) {
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    for (const file of event.dataTransfer?.files ?? []) void send({ id, file, type }, false);
  });
}

/** What becomes of dropped files, and the question whether one replaces what is there. */
export function Uploads() {
  const leave = (/** @type {Upload} */ upload) => (taken.value = taken.value.filter((one) => one !== upload));
  return html`${going.value.length > 0 && html`<p class="bar" role="status">Sending ${going.value.join(", ")}</p>`}
    ${taken.value.map(
      (upload) => html`<p class="bar" role="alert">${upload.file.name} is there already.
        <button onClick=${() => (leave(upload), void send(upload, true))}>Replace it</button><button onClick=${() => leave(upload)}>Leave it</button></p>`,
    )}`;
}
