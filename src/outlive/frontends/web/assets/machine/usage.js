// @ts-check
// Processor and memory of what lives, from when this part of the page is first looked at: the engine samples nothing, so the page asks for trees.
import { place } from "../base/address.js";
import { living } from "../base/processes.js";
import { link, request } from "../base/rpc.js";
import { signal } from "../base/ui.js";
import { processorsOf } from "./machine_model.js";

/** @typedef {{at: number, cpu: number, memory_bytes: number}} Look */
/** @typedef {{processors: number, memory_bytes: number}} Share */

const EACH_MS = 5000;
const FIRST_MS = 500; // until the first look, once it is shown
const MOST = 24; // trees that are looked at: each costs the server some milliseconds in a thread
const KEPT = 720; // an hour of them

/** Seconds, processors and bytes, as columns; what of it is which project's now; and how many trees were left out. */
export const usage = signal({ columns: /** @type {number[][]} */ ([[], [], []]), projects: /** @type {Map<string, Share>} */ (new Map()), leftOut: 0 });
/** @type {Map<string, Look>} */
let before = new Map();

async function look() {
  const alive = living().filter((one) => one.pid !== null && one.state !== "queued");
  const chosen = alive.slice(0, MOST);
  /** @type {Map<string, Look>} */
  const seen = new Map();
  /** @type {Map<string, Share>} */
  const projects = new Map();
  const sum = { processors: 0, memory_bytes: 0 };
  for (const process of chosen) {
    const { stats } = await request("get", { process_id: process.process_id, stats: true });
    const now = { at: Date.now(), cpu: stats.cpu, memory_bytes: stats.memory_bytes };
    seen.set(process.process_id, now);
    const share = projects.get(process.project ?? "") ?? { processors: 0, memory_bytes: 0 };
    const busy = processorsOf(now, before.get(process.process_id));
    for (const one of [share, sum]) {
      one.processors += busy;
      one.memory_bytes += now.memory_bytes;
    }
    projects.set(process.project ?? "", share);
  }
  before = seen;
  const [times = [], processors = [], memory = []] = usage.value.columns;
  const grown = [[...times, Date.now() / 1000], [...processors, sum.processors], [...memory, sum.memory_bytes]].map((one) => one.slice(-KEPT));
  usage.value = { columns: grown, projects, leftOut: alive.length - chosen.length };
}

let isLooking = false;
let lookedAt = 0;
setInterval(() => {
  const { view, query } = place.value;
  if (view !== "machine" || (query.show ?? "activity") !== "activity") lookedAt = 0;
  else if (!isLooking && !document.hidden && link.value === "open" && Date.now() - lookedAt >= EACH_MS) {
    isLooking = true;
    lookedAt = Date.now();
    // A process that has ended meanwhile, a connection that was lost: the next look is soon.
    void look().catch(() => {}).finally(() => (isLooking = false));
  }
}, FIRST_MS);
