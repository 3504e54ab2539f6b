// @ts-check
// One terminal over WebSocket (docs/ws-terminal.md): its bytes, from a place on, and a new connection at the exact byte when one is lost.
// What was drawn is acknowledged, so that little lies on the way; where the output runs far ahead of the drawing, a part of it is skipped.
import { token } from "../base/token.js";

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;
const HIDDEN_MS = 2000; // a page that is hidden for longer hangs up: a short look at another window costs nothing
// What lies between the server and the screen is drawn before what a key has caused: 128 KiB are some 20 ms, and enough for 10 MB/s over
// a way of 10 ms. See decision 206, as for the others.
const AHEAD_BYTES = 128 * 1024;
const ACKNOWLEDGED_BYTES = AHEAD_BYTES / 4; // at a time
const LAG_BYTES = 16 * 1024 * 1024; // two seconds of drawing; the quarter that is drawn behind a skip fills what can be scrolled back to
const HURRIED_LAG_BYTES = 128 * 1024; // right after an interrupt, of which the effect is wanted at once
const HURRIED_MS = 2000;
const INTERRUPTS = /[\x03\x1a\x1c]/; // Ctrl-C, Ctrl-Z, Ctrl-\
const ENDED = 1000;
const REVOKED = 1008;

/**
 * @typedef {object} Viewer What the connection does to what is looked at.
 * @property {(bytes: Uint8Array, done: () => void) => void} write Draws bytes, and calls back once they are drawn.
 * @property {() => {rows: number, cols: number}} size
 * @property {(message: {type: string, [member: string]: any}) => void} hear Takes each control message of the server.
 * @property {(skipped: {bytes: number, modes: string, at: number}, done: () => void) => void} skip Takes that bytes from `at` on are left out.
 * @property {(isOpen: boolean, reason: string) => void} link Is told whether the terminal takes what is typed; a reason is the last word.
 */

/**
 * Look at a terminal until `close` is called.
 * @param {string} id
 * @param {Viewer} viewer
 * @param {{readonly: boolean}} options `readonly`: nothing that is typed is sent, and the terminal keeps its size.
 *   Otherwise this viewer holds the terminal if no other one does, and types only while it holds it.
 */
export function attach(id, viewer, { readonly }) {
  /** @type {number | null} How many bytes have come, from the beginning; null before the first. */
  let place = null;
  let drawn = 0; // and how many of them are on the screen
  let old = Infinity; // what lies before this was asked of another viewer: the emulator's answers to it are not sent
  let wait = FIRST_WAIT_MS;
  let isClosed = false;
  let isResting = false; // hung up, because the page is hidden
  let isHolder = false;
  /** Whether what lay before this connection is drawn, so that no key is lost from here on; null before the holder is known. @type {boolean | null} */
  let isLinked = null;
  let wants = readonly ? "watch" : "free"; // on the next connection
  let [resting, redialling, hurrying] = /** @type {(ReturnType<typeof setTimeout> | undefined)[]} */ ([]);
  let unacknowledged = 0; // bytes that were drawn
  /** @type {WebSocket | null} */
  let socket = null;

  function dial() {
    const query = new URLSearchParams();
    if (place !== null) query.set("cursor", `${place}.0`);
    query.set("hold", wants);
    query.set("ahead", String(AHEAD_BYTES));
    query.set("lag", String(LAG_BYTES));
    if (readonly) query.set("readonly", "1");
    else for (const [name, count] of Object.entries(viewer.size())) query.set(name, String(count));
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/terminal/${encodeURIComponent(id)}?${query}`;
    [old, unacknowledged, isLinked] = [Infinity, 0, null];
    const dialled = new WebSocket(address, ["outlive.terminal.v1", `outlive.token.${token()}`]);
    socket = dialled;
    dialled.binaryType = "arraybuffer";
    dialled.onopen = () => (wait = FIRST_WAIT_MS);
    dialled.onmessage = ({ data }) => socket === dialled && (typeof data === "string" ? told(JSON.parse(data)) : came(new Uint8Array(data)));
    dialled.onclose = ({ code, reason }) => {
      // One that was hung up is not dialled again because its end comes late.
      if (isClosed || socket !== dialled) return;
      isHolder = false;
      const isOver = code === ENDED || code === REVOKED;
      viewer.link(false, isOver ? reason || "closed" : "");
      if (isOver) return;
      redialling = setTimeout(dial, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
  }

  /** @param {{type: string, cursor?: string, end?: string, holder?: string, bytes?: number, modes?: string}} message */
  function told(message) {
    if (message.type === "skipped") return skipped(message);
    if (message.cursor) place = parseInt(message.cursor, 10);
    if (message.type === "gap") came(new Uint8Array()); // what is gone counts as drawn, behind what came before it
    if (message.type === "hello") {
      drawn = place ?? 0;
      old = parseInt(message.end ?? "0", 10);
    }
    if (message.type === "holder") {
      isHolder = message.holder === "you";
      // After a lost connection: what typed before types again, unless another viewer does by then.
      if (!readonly) wants = isHolder ? "free" : "watch";
      isLinked ??= false;
    }
    viewer.hear(message);
    drew(drawn);
  }

  /** @param {number} upTo */
  function drew(upTo) {
    drawn = upTo;
    if (isLinked === false && drawn >= old) viewer.link((isLinked = true), "");
  }

  /** @param {object} message */
  function say(message) {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  }

  /** @param {{cursor?: string, bytes?: number, modes?: string}} message */
  function skipped({ cursor = "", bytes = 0, modes = "" }) {
    const at = place ?? 0;
    const upTo = parseInt(cursor, 10);
    place = upTo;
    viewer.skip({ bytes, modes, at }, () => drew(upTo));
  }

  /** For a moment, draw the newest output only: what was typed has to be seen. */
  function hurry() {
    clearTimeout(hurrying);
    say({ type: "lag", bytes: HURRIED_LAG_BYTES });
    hurrying = setTimeout(() => say({ type: "lag", bytes: LAG_BYTES }), HURRIED_MS);
  }

  /** Hang up while the page is hidden, and go on at the exact byte once it is seen. */
  function looked() {
    clearTimeout(resting);
    if (document.hidden) {
      resting = setTimeout(() => {
        isResting = true;
        clearTimeout(redialling);
        const had = socket;
        socket = null;
        had?.close();
      }, HIDDEN_MS);
    } else if (isResting) {
      isResting = false;
      dial();
    }
  }

  /** @param {Uint8Array} bytes */
  function came(bytes) {
    const upTo = (place ?? 0) + bytes.byteLength;
    const from = socket;
    place = upTo;
    viewer.write(bytes, () => {
      drew(upTo);
      if (socket !== from) return; // a new connection counts anew
      unacknowledged += bytes.byteLength;
      if (unacknowledged < ACKNOWLEDGED_BYTES) return;
      say({ type: "ack", bytes: unacknowledged });
      unacknowledged = 0;
    });
  }

  document.addEventListener("visibilitychange", looked);
  dial();
  return {
    /** @param {string} text What was typed, or what the emulator answers. */
    type(text) {
      if (readonly || !isHolder || drawn < old || socket?.readyState !== WebSocket.OPEN) return;
      socket.send(new TextEncoder().encode(text));
      if (INTERRUPTS.test(text)) hurry();
    },
    /** @param {{rows: number, cols: number}} size */
    resize({ rows, cols }) {
      if (isHolder) say({ type: "resize", rows, cols });
    },
    /** Hold the terminal: if it is free, or whoever holds it. @param {boolean} over */
    take(over) {
      if (readonly) return;
      say({ type: "hold", over });
      // What is typed right behind comes behind that; if it is refused, the server drops it, and says so.
      isHolder = true;
    },
    release() {
      say({ type: "release" });
    },
    close() {
      isClosed = true;
      clearTimeout(resting);
      clearTimeout(redialling);
      clearTimeout(hurrying);
      document.removeEventListener("visibilitychange", looked);
      socket?.close();
    },
  };
}
