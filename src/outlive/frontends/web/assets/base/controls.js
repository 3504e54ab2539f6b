// @ts-check
// What can be done to a process, as far as its state and this caller's scope allow.
import { Icon } from "./icons.js";
import { request, scope } from "./rpc.js";
import { html, signal } from "./ui.js";
import { lives } from "./words.js";

/** @typedef {import("./words.js").Process} Process */

/** What went wrong last, in one sentence; "" for nothing. */
export const trouble = signal("");
let saidBy = /** @type {object | null} */ (null); // which of `repeated` has said it; null: it is about what a person did
const SURE_MS = 4000; // so long a second click means yes
const asked = signal(""); // the id and the deed that a second click does

/** @param {unknown} error @returns {string} What is said of it. */
function sentence(error) {
  const { message, hint } = /** @type {{message: string, hint?: string}} */ (error);
  return hint ? `${message} ${hint}` : message;
}

/** Say what went wrong, "" for nothing any more. @param {string} text @param {object | null} [by] */
export function complain(text, by = null) {
  trouble.value = text;
  saidBy = by;
}

/**
 * Do what a person asked for, and say what went wrong; what was said before is over.
 * @param {() => Promise<unknown>} deed
 */
export async function attempt(deed) {
  try {
    complain("");
    await deed();
  } catch (error) {
    complain(sentence(error));
  }
}

/**
 * Return what does something that the page does by itself, again and again: it says what went wrong, and takes that back once it goes
 * well. What a person did is not its business: that stays until the next deed, or until it is closed.
 * @returns {(deed: () => Promise<unknown>) => Promise<void>}
 */
export function repeated() {
  const me = {};
  return async (deed) => {
    let news = "";
    try {
      await deed();
    } catch (error) {
      news = sentence(error);
    }
    if (saidBy === me || trouble.value === "") complain(news, news ? me : null);
  };
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
