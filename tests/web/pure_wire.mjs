// When a terminal is dialled again, and when not. Run by test_pure.py in plain Node, with a clock that the tests move.
import assert from "node:assert/strict";
import test from "node:test";

import { attach } from "./page/terminals/terminal_wire.js";

const REST_MS = 2000; // until a hidden page hangs up
const LONG_MS = 60_000; // longer than any pause between two tries

/** A clock that stands until `pass`. */
const timers = new Map();
let now = 0;
let count = 0;
function pass(ms) {
  const end = now + ms;
  for (;;) {
    const [id, next] = [...timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at)[0] ?? [];
    if (next === undefined) break;
    timers.delete(id);
    now = next.at;
    next.act();
  }
  now = end;
}

/** What the page has dialled, oldest first. */
const dialled = [];

class FakeSocket {
  static OPEN = 1;
  readyState = 0;
  sent = [];
  constructor(address) {
    this.address = address;
    dialled.push(this);
  }
  open() {
    this.readyState = FakeSocket.OPEN;
    this.onopen();
  }
  lose() {
    this.readyState = 3;
    this.onclose({ code: 1006, reason: "" });
  }
  send(what) {
    this.sent.push(what);
  }
  tell(message) {
    this.onmessage({ data: JSON.stringify(message) });
  }
  close() {
    this.readyState = 3;
  }
}

Object.assign(globalThis, {
  setTimeout: (act, ms) => (timers.set(++count, { at: now + ms, act }), count),
  clearTimeout: (id) => timers.delete(id),
  WebSocket: FakeSocket,
  sessionStorage: { getItem: () => "secret" },
  location: { protocol: "http:", host: "here" },
  document: Object.assign(new EventTarget(), { hidden: false }),
});

const viewer = { write() {}, size: () => ({ rows: 24, cols: 80 }), hear() {}, skip() {}, link() {} };

/** @param {boolean} isHidden */
function turn(isHidden) {
  document.hidden = isHidden;
  document.dispatchEvent(new Event("visibilitychange"));
}

/** Look at a terminal, connected. */
function look() {
  dialled.length = 0;
  turn(false);
  const attached = attach("01k", viewer, { readonly: false });
  dialled[0].open();
  return attached;
}

test("a page that is hidden dials no terminal, also where the connection was lost before it hung up", () => {
  const attached = look();
  turn(true);
  pass(REST_MS - 100);
  dialled[0].lose();
  pass(LONG_MS);
  assert.equal(dialled.length, 1);
  turn(false);
  assert.equal(dialled.length, 2, "it is dialled once, when it is seen");
  dialled[1].open();
  pass(LONG_MS);
  assert.equal(dialled.length, 2);
  attached.close();
});

test("a terminal that is looked at is dialled again until it answers, also after a short look away", () => {
  const attached = look();
  dialled[0].lose();
  turn(true);
  turn(false);
  pass(1000);
  dialled.at(-1).lose();
  pass(1000);
  assert.equal(dialled.length, 3);
  attached.close();
});

test("a terminal that is left is not dialled again", () => {
  const attached = look();
  dialled[0].lose();
  attached.close();
  pass(LONG_MS);
  turn(true);
  pass(LONG_MS);
  turn(false);
  assert.equal(dialled.length, 1);
});

test("a terminal counts as connected once it takes what is typed, and not before", () => {
  const heard = [];
  const drawings = [];
  const patient = { ...viewer, write: (_bytes, done) => drawings.push(done), link: (isOpen) => heard.push(isOpen) };
  dialled.length = 0;
  const attached = attach("01k", patient, { readonly: false });
  const [socket] = dialled;
  socket.open();
  socket.tell({ type: "hello", cursor: "0.0", end: "9.0" });
  socket.tell({ type: "holder", holder: "you" });
  socket.onmessage({ data: new Uint8Array(4).buffer });
  socket.tell({ type: "gap", cursor: "9.0" });
  drawings.shift()();
  assert.deepEqual([heard, socket.sent], [[], []], "what was written before is not drawn yet");
  drawings.shift()();
  assert.deepEqual(heard, [true]);
  attached.type("x");
  assert.equal(socket.sent.length, 1);
  socket.lose();
  pass(LONG_MS);
  dialled.at(-1).open();
  dialled.at(-1).tell({ type: "hello", cursor: "9.0", end: "9.0" });
  assert.deepEqual(heard, [true, false], "it is not known who holds it");
  dialled.at(-1).tell({ type: "holder", holder: "you" });
  assert.deepEqual(heard, [true, false, true]);
  attached.close();
});
