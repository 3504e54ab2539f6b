// @ts-check
// Which processes ask for something to be typed: the server says when (`wait` until "question"), for those that have an input. A shell
// at its prompt asks for nothing.
import { lengthOf, linesOf, piecesOf } from "../log/log_model.js";
import { NEVER, stir } from "../base/calm.js";
import { output } from "../base/output.js";
import { learn, living } from "../base/processes.js";
import { hear, link, request, scope } from "../base/rpc.js";
import { inSight } from "../base/sight.js";
import { signal } from "../base/ui.js";
import { asks, lives } from "../base/words.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {{process: Process, screen: string, at: number}} Question `at`: since when it is shown, for `isCalm`. */

const MOST = 100; // processes that are waited for at a time: a connection has 256 unanswered waits at most
const EACH_MS = 5000; // between looks for processes that no event has told of
const LOOK_MS = 1000; // between looks whether a question was answered, here or elsewhere; a hidden page does not look
const WAIT_S = 600;
const SCREEN_BYTES = 4096; // of the end of the output, in which the question stands
const SCREEN_LINES = 12;

/** By process: what waits for input now. */
export const questions = signal(/** @type {ReadonlyMap<string, Question>} */ (new Map()));
/** When any of them has changed last, for `isCalm`: others move when one does. */
export const changedAt = signal(NEVER);
/** @type {Set<string>} */
const watched = new Set();

/** @param {Process} process @returns {boolean} Whether something can be typed into it. */
export function takesInput(process) {
  return (process.stdin === "pipe" || process.stdio === "pty") && ["running", "paused"].includes(process.state);
}

/** @param {string} id @param {Question | null} question */
function put(id, question) {
  if (!question && !questions.value.has(id)) return;
  const next = new Map(questions.value);
  if (question) next.set(id, question);
  else next.delete(id);
  changedAt.value = question?.at ?? stir();
  questions.value = next;
}

/** @param {string} id */
async function watch(id) {
  watched.add(id);
  try {
    for (;;) {
      let process = await request("wait", { process_id: id, until: "question", wait_s: WAIT_S });
      while (asks(process)) {
        if (!isSame(questions.value.get(id)?.process, process)) {
          learn(process); // the list says so, too: no event tells of it
          const screen = await screenOf(process); // with what was written since: a look later that would be another question, and an answer begun be lost
          if (isSame(process, await request("get", { process_id: id }))) put(id, { process, screen, at: stir() });
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
        await inSight();
        process = await request("get", { process_id: id });
      }
      learn(process);
      put(id, null);
      if (!lives(process) || process.completed) return;
    }
  } finally {
    put(id, null);
    watched.delete(id);
  }
}

/** @param {Process} process @returns {Promise<string>} The last lines that it has shown. */
async function screenOf(process) {
  const total = process.stdout_bytes + process.stderr_bytes;
  const at = Math.max(0, total - SCREEN_BYTES);
  const pieces = piecesOf((await output(process.process_id, { at, limit: SCREEN_BYTES })).chunks, at);
  if (lengthOf(pieces) === 0) return "";
  const lines = linesOf(pieces).map((line) => line.spans.map((one) => one.text).join(""));
  return lines.slice(-SCREEN_LINES).join("\n");
}

/** @param {Process | undefined} shown @param {Process} process @returns {boolean} Whether it asks what is shown: nothing was written since. */
function isSame(shown, process) {
  return shown?.waiting === process.waiting && shown?.stdout_bytes === process.stdout_bytes && shown?.stderr_bytes === process.stderr_bytes;
}

/** Type an answer to what is shown. @param {Question} question @param {string} text */
export async function answer({ process }, text) {
  // What is shown can be a second old: an answer is no answer to what is asked by now.
  const newest = await request("get", { process_id: process.process_id });
  if (!asks(newest) || !isSame(process, newest)) throw new Error("Nothing was sent: it does not ask that any more.");
  // A terminal ends a line by a carriage return, as its Enter key does.
  await request("write", { process_id: process.process_id, data: text + (process.stdio === "pty" ? "\r" : "\n") });
}

/** Begin: watch what can be typed into, the newest first. */
export function followQuestions() {
  let isScheduled = false;
  const look = () => {
    isScheduled = false;
    if (link.value !== "open" || scope.value === "read") return;
    for (const one of living()) {
      if (watched.size >= MOST) return;
      if (takesInput(one) && !watched.has(one.process_id)) void watch(one.process_id).catch(() => {});
    }
  };
  hear((method) => {
    if (isScheduled || (method !== "event" && method !== "connected")) return;
    isScheduled = true;
    setTimeout(look, LOOK_MS);
  });
  setInterval(look, EACH_MS);
}
