// @ts-check
// The processes that this caller may see, live: listed once over JSON-RPC, and changed by events from then on.
import { hear, request } from "./rpc.js";
import { signal } from "./ui.js";
import { lives, stateOf } from "./words.js";

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

/** However many events come, the page is drawn once a frame. */
function changed() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    version.value += 1;
  });
}

/** @param {string} id @returns {Process | undefined} */
export function processOf(id) {
  return known.get(id);
}

/** @returns {Process[]} What lives, newest first. */
export function living() {
  return filtered(known.values(), { state: "live" });
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

/** @typedef {{q?: string, state?: string, project?: string}} Filter */

/**
 * Return the processes that a filter leaves, newest first: ids grow with time.
 * @param {Iterable<Process>} processes
 * @param {Filter} filter `q`: words that all have to be in its names, command, folder or tags.
 */
export function filtered(processes, { q = "", state = "", project = "" }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const one of processes) {
    if (state === "live" ? !lives(one) : state === "ended" ? lives(one) : state && stateOf(one) !== state) continue;
    if (project && one.project !== project) continue;
    if (words.length) {
      const tags = Object.entries(one.tags).map(([name, value]) => `${name}=${value}`);
      const text = [one.name, one.short_id, one.process_id, one.command, one.cwd, one.group, one.pid, ...tags].join(" ").toLowerCase();
      if (!words.every((word) => text.includes(word))) continue;
    }
    found.push(one);
  }
  return found.sort((a, b) => (a.process_id < b.process_id ? 1 : -1));
}

/** @param {Filter} filter */
export function shown(filter) {
  void version.value;
  return filtered(known.values(), filter);
}

/** @returns {Map<string, number>} How many there are in each state, the most first. */
export function states() {
  void version.value;
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const one of known.values()) counts.set(stateOf(one), (counts.get(stateOf(one)) ?? 0) + 1);
  return new Map([...counts].sort((a, b) => b[1] - a[1]));
}

/** @returns {string[]} */
export function projects() {
  void version.value;
  return [...new Set([...known.values()].map((one) => one.project ?? "").filter(Boolean))].sort();
}
