// @ts-check
// A day or an hour of what ran: which span the address means, where each bar lies in it, how it ended, and one sentence about all. Pure.
import { asks, duration, lives, stateOf } from "../base/words.js";

/** @typedef {import("../base/words.js").Process & {location?: {backend: string}}} Process */
/** @typedef {{from: number, to: number, day: string, hour: number | null}} Span Milliseconds since 1970; `hour` null: the whole day. */

const HOUR_MS = 3_600_000;
const two = (/** @type {number} */ value) => String(value).padStart(2, "0");

/** @param {number} moment @returns {string} Its day where the browser is: "2026-01-31". */
export function dayOf(moment) {
  const at = new Date(moment);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** @param {number} moment @returns {string} "14:03:09", where the browser is. */
export function clock(moment) {
  const at = new Date(moment);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/**
 * @param {{day?: string, hour?: string}} query What the address says; anything that is no day means today.
 * @param {number} now
 * @returns {Span}
 */
export function spanOf({ day = "", hour = "" }, now) {
  const [year, month, date] = /^\d{4}-\d\d-\d\d$/.test(day) ? day.split("-").map(Number) : [];
  const wanted = new Date(year ?? 0, (month ?? 1) - 1, date ?? 1);
  const begin = year && dayOf(wanted.getTime()) === day ? wanted : new Date(new Date(now).setHours(0, 0, 0, 0));
  const chosen = /^\d{1,2}$/.test(hour) && Number(hour) < 24 ? Number(hour) : null;
  // By the calendar, not by 24 hours: a day on which clocks change has 23 or 25.
  const at = (/** @type {number} */ hours) => new Date(begin.getFullYear(), begin.getMonth(), begin.getDate(), hours).getTime();
  const from = at(chosen ?? 0);
  return { from, to: chosen === null ? at(24) : from + HOUR_MS, day: dayOf(begin.getTime()), hour: chosen };
}

/**
 * @param {Span} span
 * @param {number} steps 1 for the next, -1 for the one before.
 * @returns {{day: string, hour: string}} The address of the day or hour beside it.
 */
export function beside({ from, to, hour }, steps) {
  const inside = steps > 0 ? to : from - 1;
  return { day: dayOf(inside), hour: hour === null ? "" : String(new Date(inside).getHours()) };
}

/** @param {Span} span @returns {{at: number, text: string, hour: number | null}[]} The marks of the axis: each third hour, or ten minutes. */
export function ticksOf({ from, to, hour }) {
  const step = hour === null ? 3 * HOUR_MS : HOUR_MS / 6;
  return Array.from({ length: Math.ceil((to - from) / step) }, (_, index) => {
    const at = from + index * step;
    return { at, text: clock(at).slice(0, 5), hour: hour === null ? new Date(at).getHours() : null };
  });
}

/**
 * @param {Span} span
 * @param {number} begin
 * @param {number} end
 * @returns {{left: number, width: number}} In percent of the span; what lies beyond is cut.
 */
export function placed({ from, to }, begin, end) {
  const left = Math.max(0, Math.min(1, (begin - from) / (to - from)));
  const right = Math.max(0, Math.min(1, (end - from) / (to - from)));
  return { left: left * 100, width: Math.max(0, right - left) * 100 };
}

/** @param {Process} one @returns {number} */
export const beganAt = (one) => Date.parse(one.started_at ?? one.created_at);

/** @param {Process} one @param {number} now @returns {number} When it ended; now, while it has not. */
export const endedAt = (one, now) => (one.ended_at === null ? (lives(one) ? now : beganAt(one)) : Date.parse(one.ended_at));

/** @param {Process} one @returns {"no" | "done" | "failed" | "stopped"} How it ended, in one word. */
export function endOf(one) {
  if (!["exited", "signaled", "failed_to_start", "lost"].includes(one.state)) return "no";
  if (one.cause === "cancel" || one.cause === "shutdown") return "stopped";
  return one.state === "exited" && one.exit_code === 0 && one.cause === null ? "done" : "failed";
}

/** @param {Process} one @returns {string} How it ended, or what it does: "finished", "timed out", "asks for input". */
export function endedBy(one) {
  if (one.state === "lost") return "lost: what became of it is unknown";
  return one.state === "failed_to_start" && one.cause === null ? "it could not be started" : stateOf(one);
}

/** @param {Process} one @returns {boolean} Whether a person should look: it failed, left something running, or waits. */
export function needsLook(one) {
  return endOf(one) === "failed" || (endOf(one) !== "no" && one.descendants > 0) || (endOf(one) === "no" && (asks(one) || one.waits_for === "approval"));
}

/**
 * @param {Iterable<Process>} processes
 * @param {Span} span
 * @returns {string} "7 ended, 2 of them failed, 1 is left behind, 1 waits for an answer."
 */
export function summary(processes, span) {
  const counts = { ended: 0, failed: 0, stopped: 0, left: 0, asks: 0, approval: 0, runs: 0 };
  for (const one of processes) {
    const end = endOf(one);
    if (end === "no") {
      if (one.waits_for === "approval") counts.approval += 1;
      else if (asks(one)) counts.asks += 1;
      else counts.runs += 1;
      continue;
    }
    counts.left += one.descendants > 0 ? 1 : 0;
    const at = endedAt(one, span.to);
    if (at < span.from || at >= span.to) continue;
    counts.ended += 1;
    counts.failed += end === "failed" ? 1 : 0;
    counts.stopped += end === "stopped" ? 1 : 0;
  }
  const is = (/** @type {number} */ count, /** @type {string} */ one, /** @type {string} */ many) => count && `${count} ${count === 1 ? one : many}`;
  const parts = [
    counts.ended ? `${counts.ended} ended` : "Nothing ended",
    counts.failed && `${counts.failed} of them failed`,
    counts.stopped && `${counts.stopped} ${counts.failed ? "" : "of them "}${counts.stopped === 1 ? "was" : "were"} stopped`,
    is(counts.left, "is left behind", "are left behind"),
    is(counts.asks, "waits for an answer", "wait for an answer"),
    is(counts.approval, "waits for an approval", "wait for an approval"),
    is(counts.runs, "runs", "run"),
  ];
  return `${parts.filter(Boolean).join(", ")}.`;
}

/** @param {Process} one @param {number} now @returns {string} How long it ran until now. */
export function ranFor(one, now) {
  return duration((endedAt(one, now) - beganAt(one)) / 1000);
}
