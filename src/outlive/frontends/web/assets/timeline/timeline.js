// @ts-check
// What lived in the span that the timeline shows: asked for when the span changes, and changed by events while it is looked at.
import { place } from "../base/address.js";
import { attempt } from "../base/controls.js";
import { hear, link, request } from "../base/rpc.js";
import { effect, signal } from "../base/ui.js";
import { beganAt, spanOf } from "./timeline_model.js";

/** @typedef {import("./timeline_model.js").Process} Process */
/** @typedef {{from: string, to: string, exact: boolean}} Outage */

const PAGE = 1000; // the most that one answer lists
const ENTERED_MS = 300; // the audit log has an entry some 50 ms after what it is about, here the start of a server
const MOST = 20_000; // rows in memory; a day with more shows its newest

/** What is known of the span: its key, its processes with the oldest first, the times without a server, and whether all has come. */
export const lived = signal({ key: "", processes: /** @type {Process[]} */ ([]), away: /** @type {Outage[]} */ ([]), isWhole: false });

/** @returns {string} What has to be asked for anew when it changes. */
function keyOf() {
  const { view, query } = place.value;
  if (view !== "timeline") return "";
  const { from, to } = spanOf(query, Date.now());
  return `${from} ${to} ${query.project ?? ""}`;
}

/** @param {string} key */
async function load(key) {
  const { query } = place.value;
  const { from, to } = spanOf(query, Date.now());
  const since = new Date(from).toISOString();
  const until = new Date(to).toISOString();
  const project = query.project || undefined;
  /** @type {Process[]} */
  const found = [];
  const away = later(() => request("statistics", { since, until: new Date(Math.max(from + 1, Math.min(to, Date.now()))).toISOString(), counts: false }));
  for (let before; found.length < MOST; ) {
    const page = await request("list", { alive_since: since, until, project, limit: PAGE, before });
    if (keyOf() !== key) return; // another span is shown by now
    found.push(...page.processes);
    lived.value = { key, processes: [...found].reverse(), away: lived.value.key === key ? lived.value.away : [], isWhole: !page.more };
    if (!page.more) break;
    before = page.processes.at(-1)?.process_id;
  }
  const told = await away.catch(() => ({ away: [] })); // lost: the next connection asks again
  if (keyOf() === key) lived.value = { ...lived.value, away: told.away };
}

/** @param {() => Promise<any>} ask A question whose answer is in the audit log. */
async function later(ask) {
  await new Promise((done) => setTimeout(done, ENTERED_MS));
  return ask();
}

/** @param {{event: string, process_id: string | null, process: Process | null}} event */
function note({ event, process_id, process }) {
  const { key, processes } = lived.value;
  if (!key || key !== keyOf()) return;
  const [from = 0, to = 0] = key.split(" ").map(Number);
  const { project } = place.value.query;
  const kept = event === "removed" || process ? processes.filter((one) => one.process_id !== process_id && one.process_id !== process?.process_id) : processes;
  if (process && event !== "removed") {
    const isMine = !project || process.project === project;
    const isInside = beganAt(process) < to && (process.ended_at === null || Date.parse(process.ended_at) >= from);
    if (isMine && isInside) {
      // Ids grow with time, and most events are about the newest.
      let at = kept.length;
      while (at > 0 && /** @type {Process} */ (kept[at - 1]).process_id > process.process_id) at -= 1;
      kept.splice(at, 0, process);
    }
  }
  lived.value = { ...lived.value, processes: kept };
}

/** Begin. */
export function followTimeline() {
  let asked = "";
  effect(() => {
    const key = keyOf();
    if (link.value !== "open" || !key) asked = ""; // a lost connection may have missed something
    else if (key !== asked) {
      asked = key;
      void attempt(() => load(key));
    }
  });
  /** @type {any[]} */
  let waiting = [];
  hear((method, params) => {
    if (method !== "event" || !keyOf()) return;
    if (waiting.push(params) > 1) return;
    // However many events come, the bars are drawn once a frame.
    requestAnimationFrame(() => {
      const events = waiting;
      waiting = [];
      events.forEach(note);
    });
  });
}
