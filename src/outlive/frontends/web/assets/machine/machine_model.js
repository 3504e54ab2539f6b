// @ts-check
// What the charts and tables of the machine show: spans, columns, sums, groups. Pure.
import { lives } from "../base/words.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {{started: number, ended: number, failed: number, stopped: number, run_s: number, output_bytes: number}} Counts */
/** @typedef {Counts & {at: string}} Bucket */

const HOUR_S = 3600;
/** How far back a chart goes, and its buckets: 60 at most, since a phone shows no more. By their names in the address. */
export const SPANS = /** @type {Record<string, {text: string, length_s: number, bucket_s: number}>} */ ({
  hour: { text: "The last hour", length_s: HOUR_S, bucket_s: 60 },
  day: { text: "The last day", length_s: 24 * HOUR_S, bucket_s: 1800 },
  week: { text: "The last week", length_s: 7 * 24 * HOUR_S, bucket_s: 3 * HOUR_S },
  month: { text: "The last 30 days", length_s: 30 * 24 * HOUR_S, bucket_s: 12 * HOUR_S },
});

/**
 * @param {string | undefined} name
 * @param {number} now Milliseconds since 1970.
 * @returns {{since: string, until: string, bucket_s: number}} What `statistics` takes; buckets begin at whole ones, so that bars stay as time goes on.
 */
export function spanAsked(name, now) {
  const { length_s, bucket_s } = /** @type {typeof SPANS[string]} */ (SPANS[Object.hasOwn(SPANS, name ?? "") ? (name ?? "") : "day"]);
  const end = Math.ceil(now / 1000 / bucket_s) * bucket_s;
  return { since: new Date((end - length_s) * 1000).toISOString(), until: new Date(end * 1000).toISOString(), bucket_s };
}

/**
 * @param {Bucket[]} buckets
 * @param {number} bucket_s
 * @returns {{starts: number[][], running: number[][], output: number[][]}} Columns as uPlot takes them, seconds first.
 */
export function columnsOf(buckets, bucket_s) {
  const times = buckets.map((one) => Date.parse(one.at) / 1000);
  return {
    starts: [times, buckets.map((one) => one.started), buckets.map((one) => one.failed)],
    running: [times, buckets.map((one) => one.run_s / bucket_s)],
    output: [times, buckets.map((one) => one.output_bytes)],
  };
}

const two = (/** @type {number} */ value) => String(value).padStart(2, "0");

/** @param {number[]} times In seconds. @returns {string[]} Marks of an axis: the time of day, and the date where one begins or days are apart. */
export function marksOf(times) {
  const areDays = times.length > 1 && Number(times[1]) - Number(times[0]) >= 24 * HOUR_S;
  return times.map((time) => {
    const at = new Date(time * 1000);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0;
    if (areDays || isMidnight) return `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
    const minute = `${two(at.getHours())}:${two(at.getMinutes())}`;
    return at.getSeconds() ? `${minute}:${two(at.getSeconds())}` : minute;
  });
}

/** @param {Counts[]} parts @returns {Counts} */
export function sumOf(parts) {
  const sum = { started: 0, ended: 0, failed: 0, stopped: 0, run_s: 0, output_bytes: 0 };
  for (const one of parts) for (const name of /** @type {(keyof Counts)[]} */ (Object.keys(sum))) sum[name] += one[name];
  return sum;
}

/** @typedef {{name: string, running: Process[], paused: Process[], queued: Process[]}} Group */

/**
 * Return what lives by group or project, what waits in the order of its turn.
 * @param {Iterable<Process>} processes
 * @param {"group" | "project"} by
 * @returns {Group[]} Those with a line first, then by name.
 */
export function groupsOf(processes, by) {
  /** @type {Map<string, Group>} */
  const found = new Map();
  for (const one of processes) {
    const name = by === "group" ? one.group : one.project;
    if (!name || !lives(one)) continue;
    const group = found.get(name) ?? { name, running: [], paused: [], queued: [] };
    found.set(name, group);
    if (one.state === "queued") group.queued.push(one);
    else if (one.state === "paused") group.paused.push(one);
    else group.running.push(one);
  }
  // First come, first served: ids grow with time.
  for (const one of found.values()) one.queued.sort((a, b) => (a.process_id < b.process_id ? -1 : 1));
  return [...found.values()].sort((a, b) => Number(b.queued.length > 0) - Number(a.queued.length > 0) || a.name.localeCompare(b.name));
}

/**
 * @param {Process[]} queued
 * @param {string[]} turns Ids, the next first.
 * @returns {Process[]} In that order; what it does not name, because it waits for something else or has just come, last.
 */
export function inTurns(queued, turns) {
  const turn = new Map(turns.map((id, index) => [id, index]));
  const of = (/** @type {Process} */ one) => turn.get(one.process_id) ?? turns.length;
  return [...queued].sort((a, b) => of(a) - of(b));
}

/** @typedef {"PAUSE" | "RESUME" | "CANCEL"} Deed As `control` calls it. */

/** @param {Group} group @param {Deed} deed @returns {Process[]} What it makes sense for: nothing that waits is paused, since none of it runs. */
export function actedOn({ running, paused, queued }, deed) {
  if (deed === "PAUSE") return running.filter((one) => one.state === "running");
  return deed === "RESUME" ? paused : [...queued, ...paused, ...running.filter((one) => one.state !== "stopping")];
}

/** @typedef {{backend: string, image?: string, container?: string}} Location */

/**
 * @param {Iterable<Process & {location?: Location}>} processes
 * @returns {{backend: string, container: string, image: string, processes: Process[]}[]} By place and container; this machine ("") first.
 */
export function placesOf(processes) {
  /** @type {Map<string, {backend: string, container: string, image: string, processes: Process[]}>} */
  const found = new Map();
  for (const one of processes) {
    const { backend = "", image = "", container = "" } = one.location ?? {};
    const key = JSON.stringify([backend, container]);
    const there = found.get(key) ?? { backend, container, image, processes: [] };
    found.set(key, there);
    there.processes.push(one);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}

/**
 * @param {{cpu: number, memory_bytes: number, at: number}} now
 * @param {{cpu: number, at: number} | undefined} before
 * @returns {number} How many processors were busy between two looks at a tree; 0 where it began anew.
 */
export function processorsOf(now, before) {
  if (!before || now.at <= before.at) return 0;
  return Math.max(0, (now.cpu - before.cpu) / ((now.at - before.at) / 1000));
}
