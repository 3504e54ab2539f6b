// @ts-check
// What lived in the span that the timeline shows: asked for when the span changes, and changed by events while it is looked at.
import { place } from "../base/address.js";
import { repeated } from "../base/controls.js";
import { now } from "../base/now.js";
import { hear, link, request } from "../base/rpc.js";
import { computed, effect, signal } from "../base/ui.js";
import { beganAt, spanOf } from "./timeline_model.js";

/** @typedef {import("./timeline_model.js").Process} Process */
/** @typedef {{from: string, to: string, exact: boolean}} Outage */
/** @typedef {Map<string, Process | null>} Newest What events have said last of each process; null: it was removed. */

const PAGE = 1000; // the most that one answer lists
const ENTERED_MS = 300; // the audit log has an entry some 50 ms after what it is about, here the start of a server
const MOST = 20_000; // rows in memory; a day with more shows its newest
const MOST_WAITING = 1000; // processes whose events wait for a frame: 2 MB

/** What is known of the span: its key, its processes with the oldest first, the times without a server, and whether all has come. */
export const lived = signal({ key: "", processes: /** @type {Process[]} */ ([]), away: /** @type {Outage[]} */ ([]), isWhole: false });

/** The day that "today" is. */
const today = computed(() => new Date(now.value).setHours(0, 0, 0, 0));

/** @returns {import("./timeline_model.js").Span} What the timeline shows now. */
export function shownSpan() {
  return spanOf(place.value.query, today.value);
}

/** @returns {string} What has to be asked for anew when it changes. */
function keyOf() {
  const { view, query } = place.value;
  if (view !== "timeline") return "";
  const { from, to } = shownSpan();
  return `${from} ${to} ${query.project ?? ""}`;
}

/** @param {string} key */
async function load(key) {
  const { from, to } = shownSpan();
  const since = new Date(from).toISOString();
  const until = new Date(to).toISOString();
  const project = place.value.query.project || undefined;
  /** @type {Process[]} */
  const found = [];
  const away = later(() => request("statistics", { since, until: new Date(Math.max(from + 1, Math.min(to, Date.now()))).toISOString(), counts: false }));
  // What happens while pages are fetched is newer than they are.
  const newest = /** @type {Newest} */ (new Map());
  const end = hear((method, params) => method === "event" && note(newest, params));
  try {
    for (let before; found.length < MOST; ) {
      const page = await request("list", { alive_since: since, until, project, limit: PAGE, before });
      if (keyOf() !== key) return; // another span is shown by now
      found.push(...page.processes);
      const processes = merged([...found].reverse(), newest, key);
      lived.value = { key, processes, away: lived.value.key === key ? lived.value.away : [], isWhole: !page.more };
      if (!page.more) break;
      before = page.processes.at(-1)?.process_id;
    }
  } finally {
    end();
  }
  const told = await away.catch(() => ({ away: [] })); // lost: the next connection asks again
  if (keyOf() === key) lived.value = { ...lived.value, away: told.away };
}

/** @param {() => Promise<any>} ask A question whose answer is in the audit log. */
async function later(ask) {
  await new Promise((done) => setTimeout(done, ENTERED_MS));
  return ask();
}

/**
 * @param {Process[]} processes The oldest first.
 * @param {Newest} newest
 * @param {string} key
 * @returns {Process[]} The same after these events.
 */
function merged(processes, newest, key) {
  if (newest.size === 0) return processes;
  const [from = 0, to = 0] = key.split(" ").map(Number);
  const { project } = place.value.query;
  const kept = processes.filter((one) => !newest.has(one.process_id));
  for (const process of newest.values()) {
    if (process === null || (project && process.project !== project)) continue;
    if (beganAt(process) < to && (process.ended_at === null || Date.parse(process.ended_at) >= from)) kept.push(process);
  }
  // Ids grow with time.
  return kept.sort((a, b) => (a.process_id < b.process_id ? -1 : 1)).slice(-MOST);
}

/** @param {Newest} newest Takes what an event says: the record of its process, null for one that was removed. @param {any} event */
function note(newest, { event, process_id, process }) {
  if (event === "removed") newest.set(process_id, null);
  else if (process) newest.set(process.process_id, process);
}

/** Begin. */
export function followTimeline() {
  let asked = "";
  const lost = signal(0); // counts how often events were lost
  let answered = 0;
  const say = repeated();
  effect(() => {
    const key = keyOf();
    const isLost = lost.value !== answered;
    answered = lost.value;
    if (link.value !== "open" || !key) asked = ""; // a lost connection may have missed something
    else if (key !== asked || isLost) {
      asked = key;
      void say(() => load(key));
    }
  });
  let waiting = /** @type {Newest} */ (new Map());
  let isScheduled = false;
  let isAnew = false;
  hear((method, params) => {
    if (method !== "event" || !keyOf()) return;
    note(waiting, params);
    // A hidden page has no frames: what it cannot keep it asks for once it is seen.
    if (params.event === "missed" || waiting.size > MOST_WAITING) {
      isAnew = true;
      waiting.clear();
    }
    if (isScheduled) return;
    isScheduled = true;
    // However many events come, the bars are drawn once a frame.
    requestAnimationFrame(() => {
      const { key, processes } = lived.value;
      if (isAnew) lost.value += 1;
      else if (key && key === keyOf()) lived.value = { ...lived.value, processes: merged(processes, waiting, key) };
      isScheduled = isAnew = false;
      waiting = new Map();
    });
  });
}
