// @ts-check
// The processes that this caller may see, live: listed once over JSON-RPC, and changed by events from then on.
import { hear, request } from "./rpc.js";
import { signal } from "./ui.js";
import { lives } from "./words.js";

/** @typedef {import("./words.js").Process} Process */

const PAGE = 1000; // the most that one answer lists
const MOST = 20_000; // rows in memory: 30 MB; what is older is found by its address

/** All of them by id. The value is the same map, changed in place: `version` says when. */
const known = /** @type {Map<string, Process>} */ (new Map());
/** Counts the changes. */
export const version = signal(0);
/** Whether the first answer has come. */
export const isListed = signal(false);

let isScheduled = false;
const MANY = 1000; // rows, whose order takes some milliseconds
const EACH_MS = 200; // between two drawings of so many, while events come

/** However many events come, the page is drawn once a frame, and a long list five times a second. */
function changed() {
  if (isScheduled) return;
  isScheduled = true;
  const draw = () => {
    isScheduled = false;
    version.value += 1;
  };
  if (known.size < MANY) requestAnimationFrame(draw);
  else setTimeout(draw, EACH_MS);
}

/** @param {string} id @returns {Process | undefined} */
export function processOf(id) {
  return known.get(id);
}

/**
 * Take over what an answer has said of a process, as soon as it has come: not every change is an event.
 * What is older than an event stays out: a process that was removed or has ended does not come back.
 * @param {Process} process
 */
export function learn(process) {
  const before = known.get(process.process_id);
  if (!before || (before.ended_at !== null && process.ended_at === null)) return;
  known.set(process.process_id, process);
  changed();
}

/** @returns {Process[]} What lives, newest first. */
export function living() {
  return [...known.values()].filter(lives).sort((a, b) => (a.process_id < b.process_id ? 1 : -1));
}

/** Begin: list and follow on each new connection. */
export function followProcesses() {
  hear((method, params) => {
    if (method === "connected") void list().catch(() => {}); // lost again: the next connection lists anew
    if (method === "event") note(params);
  });
}

async function list() {
  // Events first: what happens while pages are fetched is newer than they are.
  /** @type {Set<string>} */
  const touched = new Set();
  const end = hear((method, params) => method === "event" && params.process_id && touched.add(params.process_id));
  try {
    await request("events");
    const seen = new Set();
    for (const active of [true, undefined]) {
      let before;
      for (let count = 0; count < MOST; count += PAGE) {
        const page = await request("list", { limit: PAGE, ...(active && { active }), ...(before && { before }) });
        for (const one of page.processes) {
          seen.add(one.process_id);
          if (!touched.has(one.process_id)) known.set(one.process_id, one);
        }
        isListed.value = true;
        changed();
        before = page.processes.at(-1)?.process_id;
        if (!page.more) break;
      }
    }
    for (const id of known.keys()) if (!seen.has(id) && !touched.has(id)) known.delete(id);
    changed();
  } finally {
    end();
  }
}

/** @param {{event: string, process_id: string | null, process: Process | null}} event */
function note({ event, process_id, process }) {
  if (event === "removed" && process_id) known.delete(process_id);
  else if (process) known.set(process.process_id, process);
  else if (event === "missed") void list().catch(() => {});
  changed();
}

/** @returns {Iterable<Process>} All that are known, in no order; who reads it follows `version`. */
export function all() {
  return known.values();
}

/** @returns {string[]} The projects of what is known, by name. */
export function projects() {
  return [...new Set([...all()].map((one) => one.project ?? "").filter(Boolean))].sort();
}
