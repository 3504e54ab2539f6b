// @ts-check
// JSON-RPC over one WebSocket (docs/jsonrpc.md): requests with answers, notifications, and a new connection whenever one is lost.
import { token } from "./token.js";
import { signal } from "./ui.js";

/** What the connection is: "open", "away" (it is dialled again), or "refused" (the token does not count). */
export const link = signal(/** @type {"away" | "open" | "refused"} */ ("away"));
/** How much this caller may do: "read", "run" or "admin"; known once a connection is open. */
export const scope = signal("");

const FIRST_WAIT_MS = 250; // a server that was killed is back within a second
const LONGEST_WAIT_MS = 5000;

/** An answer that is an error: `reason` is its stable word. */
export class RpcError extends Error {
  /** @param {{message: string, data?: {reason?: string, hint?: string}}} error */
  constructor(error) {
    super(error.message);
    this.reason = error.data?.reason ?? "internal_error";
    this.hint = error.data?.hint ?? "";
  }
}

/** @type {Map<number, {resolve: (result: any) => void, reject: (error: Error) => void}>} */
const waiting = new Map();
/** @type {Set<(method: string, params: any) => void>} */
const listeners = new Set();
/** @type {WebSocket | null} */
let socket = null;
let count = 0;
let wait = FIRST_WAIT_MS;

/** Dial, and go on dialling for as long as the page is open. `connected` is among the notifications: each time. */
export function dial() {
  const secret = token();
  if (secret === null) return;
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/mcp`;
  const dialled = new WebSocket(address, ["outlive.jsonrpc.v1", `outlive.token.${secret}`]);
  socket = dialled;
  dialled.onmessage = ({ data }) => receive(JSON.parse(data));
  dialled.onclose = ({ code }) => {
    socket = null;
    for (const { reject } of waiting.values()) reject(new RpcError({ message: "The connection was lost." }));
    waiting.clear();
    void lost(code);
  };
}

/** @param {number} code */
async function lost(code) {
  // A page does not see why an upgrade was refused: it asks where an answer can be read.
  const isRefused = code === 1008 || (await answers()) === 401;
  link.value = isRefused ? "refused" : "away";
  if (isRefused) return;
  setTimeout(dial, wait);
  wait = Math.min(wait * 2, LONGEST_WAIT_MS);
}

async function answers() {
  try {
    const headers = { Authorization: `Bearer ${token()}` };
    return (await fetch("/v1/processes?limit=1", { headers })).status;
  } catch {
    return 0;
  }
}

/** @param {any} message */
function receive(message) {
  if (message.method !== undefined) {
    if (message.method === "connected") {
      wait = FIRST_WAIT_MS;
      scope.value = message.params.capabilities.scope;
      link.value = "open";
    }
    for (const listener of listeners) listener(message.method, message.params);
    return;
  }
  const asked = waiting.get(message.id);
  waiting.delete(message.id);
  if (message.error) asked?.reject(new RpcError(message.error));
  else asked?.resolve(message.result);
}

/**
 * Ask for something, and wait for the answer.
 * @param {string} method
 * @param {Record<string, unknown>} [params]
 * @returns {Promise<any>}
 */
export function request(method, params = {}) {
  if (socket === null || socket.readyState !== WebSocket.OPEN) {
    return Promise.reject(new RpcError({ message: "The server is away." }));
  }
  const id = ++count;
  const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
  return answer;
}

/**
 * Hear every notification.
 * @param {(method: string, params: any) => void} listener
 * @returns {() => void} Ends that.
 */
export function hear(listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
