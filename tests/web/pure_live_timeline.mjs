// How the timeline follows events, a hidden page and midnight, before a server that the tests play. Run by test_pure.py in plain Node.
import assert from "node:assert/strict";
import test from "node:test";

const NOON = new Date(2026, 0, 31, 12).getTime();
/** What the page has asked, oldest first; what it is answered; and what it does in its next frame. */
const asked = [];
const frames = [];
let answers = () => ({ processes: [], more: false });
let socket;

class FakeSocket {
  static OPEN = 1;
  readyState = 1;
  constructor() {
    socket = this;
  }
  tell(message) {
    this.onmessage({ data: JSON.stringify(message) });
  }
  send(text) {
    const { id, method, params } = JSON.parse(text);
    if (method === "list") asked.push(params);
    const result = method === "list" ? answers(params) : { away: [] };
    setImmediate(() => this.tell({ id, result }));
  }
}

Object.assign(globalThis, {
  WebSocket: FakeSocket,
  sessionStorage: { getItem: () => "secret" },
  location: { protocol: "http:", host: "here", hash: "#/timeline" },
  document: { hidden: false },
  requestAnimationFrame: (draw) => frames.push(draw),
  setInterval: () => 0, // the tests move the clock
});
const { now } = await import("./page/base/now.js");
const { dial } = await import("./page/base/rpc.js");
const { followTimeline, lived, shownSpan } = await import("./page/timeline/timeline.js");
now.value = NOON;
followTimeline();
dial();
socket.tell({ method: "connected", params: { capabilities: { scope: "admin" } } });

const record = (id, members = {}) => ({
  process_id: id, state: "running", created_at: new Date(NOON).toISOString(), started_at: new Date(NOON).toISOString(), ended_at: null, ...members,
});
const happen = (event, process) => socket.tell({ method: "event", params: { event, process_id: process?.process_id ?? null, process } });
const draw = () => frames.splice(0).forEach((one) => one());
const shown = () => lived.value.processes.map((one) => `${one.process_id} ${one.state}`);
async function settle() {
  for (let turn = 0; turn < 20; turn += 1) await new Promise((done) => setImmediate(done));
}
const ended = { state: "exited", exit_code: 0, ended_at: new Date(NOON + 1000).toISOString() };

test("events change what is shown once a frame, by the newest of each process", async () => {
  await settle();
  assert.equal(asked.length, 1);
  happen("started", record("b"));
  happen("started", record("a"));
  happen("ended", record("b", ended));
  happen("started", record("c"));
  happen("removed", record("c"));
  assert.deepEqual([shown(), frames.length], [[], 1]);
  draw();
  assert.deepEqual(shown(), ["a running", "b exited"]);
  happen("started", record("d", { created_at: new Date(NOON + 86_400_000).toISOString(), started_at: null }));
  draw();
  assert.deepEqual(shown(), ["a running", "b exited"], "what began on another day is not shown");
});

test("a page without frames keeps the newest of a thousand processes, and asks anew beyond that", async () => {
  asked.length = 0;
  for (let turn = 0; turn < 5000; turn += 1) happen("paused", record("a", { state: turn % 2 ? "running" : "paused" }));
  draw();
  await settle();
  assert.deepEqual([shown(), asked.length], [["a running", "b exited"], 0]);
  answers = () => ({ processes: [record("z")], more: false });
  for (let turn = 0; turn < 1500; turn += 1) happen("started", record(`m${turn}`));
  assert.deepEqual([frames.length, asked.length], [1, 0], "nothing is asked before it is seen");
  draw();
  await settle();
  assert.deepEqual([shown(), asked.length], [["z running"], 1]);
  happen("missed");
  draw();
  await settle();
  assert.equal(asked.length, 2, "what the server has left out is asked for, too");
});

test("what happens while pages are fetched is newer than they are", async () => {
  answers = ({ before }) => {
    if (!before) return { processes: [record("y")], more: true };
    happen("ended", record("y", ended));
    return { processes: [record("x")], more: false };
  };
  happen("missed");
  draw();
  await settle();
  draw();
  assert.deepEqual(shown(), ["x running", "y exited"]);
});

test("at midnight today is another day", async () => {
  answers = () => ({ processes: [record("n")], more: false });
  const last = new Date(2026, 0, 31, 23, 59, 59);
  now.value = last.getTime();
  await settle();
  assert.equal(shownSpan().day, "2026-01-31");
  asked.length = 0;
  now.value = last.getTime() + 1000;
  await settle();
  assert.equal(shownSpan().day, "2026-02-01");
  assert.deepEqual(asked.map((one) => one.alive_since), [new Date(2026, 1, 1).toISOString()]);
});
