// What the charts of the machine decide without a browser. Run by test_machine.py in plain Node.
import assert from "node:assert/strict";
import test from "node:test";

import { actedOn, columnsOf, groupsOf, inTurns, marksOf, placesOf, processorsOf, spanAsked, sumOf } from "./page/machine/machine_model.js";

const process = (members) => ({ process_id: "01a", state: "running", descendants: 0, group: "night", project: "/srv", ...members });

test("a span ends at a whole bucket, and is a day where the address says nothing that is known", () => {
  const now = Date.parse("2026-01-31T12:34:56Z");
  assert.deepEqual(spanAsked("hour", now), { since: "2026-01-31T11:35:00.000Z", until: "2026-01-31T12:35:00.000Z", bucket_s: 60 });
  for (const name of ["day", "toString", undefined]) {
    assert.deepEqual(spanAsked(name, now), { since: "2026-01-30T13:00:00.000Z", until: "2026-01-31T13:00:00.000Z", bucket_s: 1800 });
  }
});

test("buckets become columns, and a running time how many ran at once", () => {
  const buckets = [
    { at: "2026-01-31T12:00:00Z", started: 3, ended: 2, failed: 1, stopped: 0, run_s: 90, output_bytes: 5 },
    { at: "2026-01-31T12:01:00Z", started: 0, ended: 1, failed: 0, stopped: 1, run_s: 30, output_bytes: 7 },
  ];
  const { starts, running, output } = columnsOf(buckets, 60);
  assert.deepEqual(starts.slice(1), [[3, 0], [1, 0]]);
  assert.deepEqual(running[1], [1.5, 0.5]);
  assert.deepEqual(output, [[1769860800, 1769860860], [5, 7]]);
  assert.deepEqual(sumOf(buckets), { started: 3, ended: 3, failed: 1, stopped: 1, run_s: 120, output_bytes: 12 });
});

test("an axis shows the time of day, and dates where days are apart", () => {
  const at = (hour, minute = 0, second = 0, day = 31) => new Date(2026, 0, day, hour, minute, second).getTime() / 1000;
  assert.deepEqual(marksOf([at(21, 0, 0, 30), at(0), at(3)]), ["21:00", "01-31", "03:00"]);
  assert.deepEqual(marksOf([at(3, 0, 10), at(3, 0, 20)]), ["03:00:10", "03:00:20"]);
  assert.deepEqual(marksOf([at(6, 0, 0, 30), at(6)]), ["01-30", "01-31"]);
});

test("a tree's processors are what it used between two looks", () => {
  assert.equal(processorsOf({ cpu: 3, memory_bytes: 0, at: 4000 }, { cpu: 1, at: 3000 }), 2);
  assert.equal(processorsOf({ cpu: 1, memory_bytes: 0, at: 4000 }, { cpu: 5, at: 3000 }), 0, "children that were not waited for are gone");
  assert.equal(processorsOf({ cpu: 1, memory_bytes: 0, at: 4000 }, undefined), 0);
});

test("groups with a line come first, and a line is in the order of turns", () => {
  const all = [
    process({ group: "b" }), process({ process_id: "01z", group: "c", state: "queued" }), process({ process_id: "01y", group: "c", state: "queued" }),
    process({ group: "a", state: "paused" }), process({ group: null }), process({ group: "a", state: "exited" }),
  ];
  const groups = groupsOf(all, "group");
  assert.deepEqual(groups.map((one) => one.name), ["c", "a", "b"]);
  assert.deepEqual(groups[0].queued.map((one) => one.process_id), ["01y", "01z"]);
  assert.deepEqual(inTurns(groups[0].queued, ["01z"]).map((one) => one.process_id), ["01z", "01y"], "as it was moved");
  assert.deepEqual([groups[1].paused.length, groups[1].running.length], [1, 0]);
  assert.deepEqual(groupsOf(all, "project").map((one) => one.name), ["/srv"]);
});

test("what is done to a group is done to those it makes sense for", () => {
  const [group] = groupsOf([
    process({ process_id: "01a" }), process({ process_id: "01b", state: "paused" }), process({ process_id: "01c", state: "queued" }),
    process({ process_id: "01d", state: "stopping" }), process({ process_id: "01e", state: "exited", descendants: 1 }),
  ], "group");
  const ids = (deed) => actedOn(group, deed).map((one) => one.process_id);
  assert.deepEqual(ids("PAUSE"), ["01a"]);
  assert.deepEqual(ids("RESUME"), ["01b"]);
  assert.deepEqual(ids("CANCEL"), ["01c", "01b", "01a", "01e"], "what waits first: else it would begin in a place that becomes free");
});

test("what lives is listed by place and container, this machine first", () => {
  const places = placesOf([
    process({ location: { backend: "north" } }), process({}), process({ location: { backend: "docker", image: "debian", container: "o-1" } }), process({}),
  ]);
  assert.deepEqual(places.map((one) => [one.backend, one.container, one.processes.length]), [["", "", 2], ["docker", "o-1", 1], ["north", "", 1]]);
});
