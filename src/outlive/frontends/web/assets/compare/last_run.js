// @ts-check
// Whether there is a run to compare a process with. The server is asked, once for each process that is looked at: it knows all that are kept.
import { request } from "../base/rpc.js";
import { signal } from "../base/ui.js";

/** @typedef {import("../base/words.js").Process} Process */

/** @type {Map<string, boolean>} By process; one that is asked about stands for "no" until the answer. */
const known = new Map();
const answers = signal(0);

/** @param {Process} process @returns {Promise<Process | undefined>} The run of the same command in the same folder before it. */
export async function lastRun({ process_id }) {
  return (await request("list", { same_as: process_id, before: process_id, limit: 1 })).processes[0];
}

/** @param {Process} process @returns {boolean} Whether there is one, as far as is known; drawn again once it is. */
export function hasLastRun(process) {
  void answers.value;
  const { process_id } = process;
  if (!known.has(process_id) && process.started_at !== null) queueMicrotask(() => void look(process));
  return known.get(process_id) ?? false;
}

/** @param {Process} process */
async function look(process) {
  if (known.has(process.process_id)) return;
  known.set(process.process_id, false);
  try {
    known.set(process.process_id, (await lastRun(process)) !== undefined);
    answers.value += 1;
  } catch {
    known.delete(process.process_id); // the connection was lost, or the process was removed: the next drawing asks again
  }
}
