// What the timeline decides without a browser: spans, places of bars, ends in words, the sentence. Run by test_timeline.py in plain Node, in a
// zone where clocks change.
import assert from "node:assert/strict";
import test from "node:test";

import { beside, clock, dayOf, endedBy, endOf, needsLook, placed, spanOf, summary, ticksOf } from "./page/timeline/timeline_model.js";

const HOUR = 3_600_000;
const now = new Date(2026, 0, 31, 15, 30).getTime();
const process = (members) => ({
  process_id: "01k", state: "exited", command: "make all", created_at: "2026-01-31T12:00:00Z", started_at: "2026-01-31T12:00:00Z",
  ended_at: "2026-01-31T12:05:00Z", exit_code: 0, cause: null, waits_for: null, descendants: 0, tags: {}, ...members,
});

test("an address means a day or an hour of it, where the browser is", () => {
  assert.equal(dayOf(spanOf({}, now).from), "2026-01-31");
  assert.deepEqual(spanOf({ day: "2026-02-30", hour: "24" }, now), spanOf({}, now), "what is no day is today");
  const hour = spanOf({ day: "2026-01-30", hour: "14" }, now);
  assert.deepEqual([dayOf(hour.from), clock(hour.from), hour.to - hour.from], ["2026-01-30", "14:00:00", HOUR]);
  const short = spanOf({ day: "2026-03-29" }, now);
  assert.equal((short.to - short.from) / HOUR, 23, "clocks are put forward on that day (Europe/Berlin)");
});

test("the day or hour beside one is found over midnight", () => {
  assert.deepEqual(beside(spanOf({ day: "2026-01-01" }, now), -1), { day: "2025-12-31", hour: "" });
  assert.deepEqual(beside(spanOf({ day: "2026-01-31", hour: "23" }, now), 1), { day: "2026-02-01", hour: "0" });
  assert.deepEqual(beside(spanOf({ day: "2026-03-29" }, now), 1), { day: "2026-03-30", hour: "" });
});

test("the axis has a mark each third hour, and each ten minutes of an hour", () => {
  assert.deepEqual(ticksOf(spanOf({}, now)).map((one) => one.text), ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"]);
  assert.deepEqual(ticksOf(spanOf({ hour: "7" }, now)).map((one) => one.text).slice(0, 2), ["07:00", "07:10"]);
});

test("a bar lies where its process lived, cut at the ends", () => {
  const span = { from: 1000, to: 2000, day: "", hour: null };
  assert.deepEqual(placed(span, 1250, 1500), { left: 25, width: 25 });
  assert.deepEqual(placed(span, 0, 9000), { left: 0, width: 100 });
  assert.deepEqual(placed(span, 5000, 9000), { left: 100, width: 0 });
});

test("an end is said in words, with what brought it about", () => {
  assert.deepEqual([endOf(process({})), endedBy(process({}))], ["done", "finished"]);
  assert.deepEqual([endOf(process({ exit_code: 2 })), endedBy(process({ exit_code: 2 }))], ["failed", "failed (exit 2)"]);
  const stopped = process({ state: "signaled", exit_code: -15, cause: "cancel" });
  assert.deepEqual([endOf(stopped), endedBy(stopped), needsLook(stopped)], ["stopped", "stopped", false]);
  assert.equal(endedBy(process({ state: "signaled", exit_code: -11 })), "crashed (SEGV)");
  assert.equal(endOf(process({ cause: "timeout" })), "failed", "also where the program exits with 0 after TERM");
  assert.equal(needsLook(process({ descendants: 1 })), true, "what is left behind");
  assert.equal(needsLook(process({ state: "running", ended_at: null, exit_code: null, waiting: "input" })), true);
});

test("one sentence says what became of all", () => {
  const span = spanOf({}, now);
  const at = (hour) => new Date(2026, 0, 31, hour).toISOString();
  const lives = { state: "running", ended_at: null, exit_code: null };
  const all = [
    process({ ended_at: at(8) }), process({ ended_at: at(9), exit_code: 1 }), process({ ended_at: at(10), descendants: 2 }),
    process({ ...lives, waiting: "input" }), process(lives), process({ ended_at: at(11), cause: "cancel", state: "signaled", exit_code: -15 }),
  ];
  assert.equal(summary(all, span), "4 ended, 1 of them failed, 1 was stopped, 1 is left behind, 1 waits for an answer, 1 runs.");
  assert.equal(summary([], span), "Nothing ended.");
  assert.equal(summary([process({ ended_at: "2026-02-02T00:00:00Z" })], span), "Nothing ended.", "that day it still ran");
});
