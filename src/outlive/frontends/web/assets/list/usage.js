// @ts-check
// What the processes in sight use, looked at while somebody does: no row in sight, no question. The history is this page's memory.
import { place } from "../base/address.js";
import { living, processOf } from "../base/processes.js";
import { link, request } from "../base/rpc.js";
import { signal } from "../base/ui.js";
import { lives } from "../base/words.js";
import { looked } from "./usage_model.js";

/** @typedef {import("./usage_model.js").Usage} Usage */

const EACH_MS = 2000;
const MOST = 100; // that `usage` takes at a time

/** @type {Map<string, Usage>} */
const known = new Map();
/** @type {Set<string>} What was drawn last. */
const inSight = new Set();
/** Counts the looks. */
export const looks = signal(0);
let isAsking = false;

/** Begin to draw: what was in sight until now need not be any more. */
export function drawAnew() {
  inSight.clear();
}

/** Say that a process is in sight, and return what it uses. @param {string} id @returns {Usage | undefined} */
export function usageOf(id) {
  inSight.add(id);
  return known.get(id);
}

/** @param {{process_id: string}} process @returns {number} Bytes, as far as it was looked at. */
export function memoryOf({ process_id }) {
  return known.get(process_id)?.memory.at(-1) ?? 0;
}

async function look() {
  // An order by memory has to know that of all that lives, as far as one question goes.
  const asked = place.value.query.sort === "memory" ? new Set([...inSight, ...living().map((one) => one.process_id)]) : inSight;
  const wanted = [...asked].filter((id) => {
    const process = processOf(id);
    return process && lives(process) && process.state !== "queued";
  });
  if (wanted.length === 0) return;
  const { at, usage } = await request("usage", { process_ids: wanted.slice(0, MOST) });
  for (const one of usage) known.set(one.process_id, looked(known.get(one.process_id), one, Date.parse(at)));
  for (const id of known.keys()) {
    const process = processOf(id);
    if (!process || !lives(process)) known.delete(id);
  }
  looks.value += 1;
}

setInterval(() => {
  if (isAsking || document.hidden || link.value !== "open" || place.value.view !== "list") return;
  isAsking = true;
  // A connection that is lost meanwhile asks again by itself.
  void look().catch(() => {}).finally(() => (isAsking = false));
}, EACH_MS);
