// @ts-check
// What can be done to a process, as far as its state and this caller's scope allow.
import { Icon } from "./icons.js";
import { request, scope } from "./rpc.js";
import { html, signal } from "./ui.js";
import { lives } from "./words.js";

/** @typedef {import("./words.js").Process} Process */

/** What went wrong last, in one sentence; "" for nothing. */
export const trouble = signal("");
const SURE_MS = 4000; // so long a second click means yes
const asked = signal(""); // the id and the deed that a second click does

/**
 * Do something, and say what went wrong.
 * @param {() => Promise<unknown>} deed
 */
export async function attempt(deed) {
  try {
    trouble.value = "";
    await deed();
  } catch (error) {
    const { message, hint } = /** @type {{message: string, hint?: string}} */ (error);
    trouble.value = hint ? `${message} ${hint}` : message;
  }
}

/** @param {string} id @param {Record<string, unknown>} params */
function control(id, params) {
  void attempt(() => request("control", { process_id: id, ...params }));
}

/** @param {{process: Process}} props */
export function Controls({ process }) {
  if (scope.value === "read" || !lives(process)) return null;
  const id = process.process_id;
  const isPaused = process.state === "paused";
  const name = process.name ?? process.command.slice(0, 40);
  return html`<span class="controls">
    ${["running", "paused"].includes(process.state) &&
    html`<button class="quiet" title=${isPaused ? "Resume" : "Pause"} aria-label=${`${isPaused ? "Resume" : "Pause"} ${name}`}
      onClick=${() => control(id, { type: isPaused ? "RESUME" : "PAUSE" })}><${Icon} name=${isPaused ? "resume" : "pause"} /></button>`}
    <${Sure} id=${id} deed="stop" name=${name} act=${() => control(id, { type: "CANCEL" })} />
    <${Sure} id=${id} deed="kill" name=${name} act=${() => control(id, { type: "CANCEL", grace: 0 })} />
  </span>`;
}

/** A button that acts when it is pressed twice. @param {{id: string, deed: "stop" | "kill", name: string, act: () => void}} props */
function Sure({ id, deed, name, act }) {
  const mark = `${deed} ${id}`;
  const word = deed === "stop" ? "Stop" : "Kill";
  const isAsked = asked.value === mark;
  const press = () => {
    asked.value = isAsked ? "" : mark;
    if (isAsked) act();
    else setTimeout(() => asked.value === mark && (asked.value = ""), SURE_MS);
  };
  return html`<button class=${isAsked ? "sure" : "quiet"} title=${word} aria-label=${`${isAsked ? "Really " : ""}${word} ${name}`} onClick=${press}>
    ${isAsked ? `${word}?` : html`<${Icon} name=${deed} />`}
  </button>`;
}
