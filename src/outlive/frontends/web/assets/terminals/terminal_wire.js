// @ts-check
// One terminal over WebSocket (docs/ws-terminal.md): its bytes, from a place on, and a new connection at the exact byte when one is lost.
import { token } from "../base/token.js";

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5000;
const ENDED = 1000;
const REVOKED = 1008;

/**
 * @typedef {object} Viewer What the connection does to what is looked at.
 * @property {(bytes: Uint8Array, done: () => void) => void} write Draws bytes, and calls back once they are drawn.
 * @property {() => {rows: number, cols: number}} size
 * @property {(message: {type: string, [member: string]: any}) => void} hear Takes each control message of the server.
 * @property {(isOpen: boolean, reason: string) => void} link Is told whether the terminal is connected; a reason is the last word.
 */

/**
 * Look at a terminal until `close` is called.
 * @param {string} id
 * @param {Viewer} viewer
 * @param {{readonly: boolean}} options `readonly`: nothing that is typed is sent, and the terminal keeps its size.
 */
export function attach(id, viewer, { readonly }) {
  /** @type {number | null} How many bytes have come, from the beginning; null before the first. */
  let place = null;
  let drawn = 0; // and how many of them are on the screen
  let old = Infinity; // what lies before this was asked of another viewer: the emulator's answers to it are not sent
  let wait = FIRST_WAIT_MS;
  let isClosed = false;
  /** @type {WebSocket | null} */
  let socket = null;

  function dial() {
    const query = new URLSearchParams();
    if (place !== null) query.set("cursor", `${place}.0`);
    if (readonly) query.set("readonly", "1");
    else for (const [name, count] of Object.entries(viewer.size())) query.set(name, String(count));
    const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/terminal/${encodeURIComponent(id)}?${query}`;
    old = Infinity;
    const dialled = new WebSocket(address, ["outlive.terminal.v1", `outlive.token.${token()}`]);
    socket = dialled;
    dialled.binaryType = "arraybuffer";
    dialled.onopen = () => {
      wait = FIRST_WAIT_MS;
      viewer.link(true, "");
    };
    dialled.onmessage = ({ data }) => (typeof data === "string" ? told(JSON.parse(data)) : came(new Uint8Array(data)));
    dialled.onclose = ({ code, reason }) => {
      if (isClosed) return;
      const isOver = code === ENDED || code === REVOKED;
      viewer.link(false, isOver ? reason || "closed" : "");
      if (isOver) return;
      setTimeout(() => isClosed || dial(), wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
  }

  /** @param {{type: string, cursor?: string, end?: string}} message */
  function told(message) {
    if (message.cursor) place = parseInt(message.cursor, 10);
    if (message.type === "hello") {
      drawn = place ?? 0;
      old = parseInt(message.end ?? "0", 10);
    }
    viewer.hear(message);
  }

  /** @param {Uint8Array} bytes */
  function came(bytes) {
    const upTo = (place ?? 0) + bytes.byteLength;
    place = upTo;
    viewer.write(bytes, () => (drawn = upTo));
  }

  dial();
  return {
    /** @param {string} text What was typed, or what the emulator answers. */
    type(text) {
      if (!readonly && drawn >= old && socket?.readyState === WebSocket.OPEN) socket.send(new TextEncoder().encode(text));
    },
    /** @param {{rows: number, cols: number}} size */
    resize({ rows, cols }) {
      if (!readonly && socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "resize", rows, cols }));
    },
    close() {
      isClosed = true;
      socket?.close();
    },
  };
}
