// @ts-check
// Plays one terminal's output as it looked, by the times that the log has. Fetches a little ahead; whatever the length, that is in memory.
import { output } from "../base/output.js";
import { request } from "../base/rpc.js";
import { signal } from "../base/ui.js";
import { piecesOf } from "../log/log_model.js";
import { due, later, sizeAt } from "./playback_model.js";

/** @typedef {import("./playback_model.js").Frame} Frame */
/** @typedef {{write: (bytes: Uint8Array) => void, resize: (cols: number, rows: number) => void, reset: () => void}} Screen */

const PAGE_BYTES = 64 * 1024;
const AHEAD_FRAMES = 50; // five seconds of steady output, at 16 times the speed a look each 300 ms
const HISTORY_BYTES = 256 * 1024; // what is drawn at once before a place that is jumped to: as a terminal's late viewer sees it
const TICK_MS = 50;

/** Where it stands: milliseconds since 1970, but for `speed`. */
export const player = signal({ id: "", begin: 0, end: 0, now: 0, isPlaying: false, speed: 1, skips: false, isReady: false });

/** @param {Partial<typeof player.value>} change */
export function change(change) {
  player.value = { ...player.value, ...change };
}

/** @type {Frame[]} */
let frames = [];
/** @type {import("./playback_model.js").Size[]} */
let sizes = [];
let position = 0; // up to which the log was fetched
let total = 0;
let isFetching = false;
let jumps = 0; // how often it was gone elsewhere: what was asked for before is of another place
let isJumping = false;
/** @type {Screen | null} */
let screen = null;

/** @param {number} at @param {number} limit @returns {Promise<{found: Frame[], behind: number}>} Pieces, and the position behind them. */
async function fetched(at, limit) {
  const page = await output(player.value.id, { at, limit, times: "true" });
  sizes = page.sizes ?? sizes;
  const pieces = piecesOf(page.chunks, at);
  const last = pieces.at(-1);
  const found = pieces.flatMap(({ bytes, offset, time }) => (bytes ? [{ bytes, offset, time }] : []));
  return { found, behind: last ? last.offset + last.length : total };
}

/** Begin with a process; `drawn` is where it is shown. @param {string} id @param {Screen} drawn */
export async function openRecording(id, drawn) {
  screen = drawn;
  change({ id, isPlaying: false, isReady: false });
  const process = await request("get", { process_id: id });
  total = process.stdout_bytes + process.stderr_bytes;
  const [first] = (await fetched(0, 1)).found;
  const [last] = (await fetched(Math.max(0, total - 1), 1)).found;
  const begin = first?.time ?? Date.parse(process.created_at);
  if (player.value.id !== id) return;
  change({ begin, end: Math.max(begin, last?.time ?? begin), isReady: true });
  await jump(0);
}

/** @param {Frame} frame */
function draw(frame) {
  const { rows, cols } = sizeAt(sizes, frame.offset);
  screen?.resize(cols, rows);
  screen?.write(frame.bytes);
}

/** Stand at a time, as it looked then. @param {number} passed Milliseconds from the beginning. */
export async function jump(passed) {
  const { id, begin, end } = player.value;
  const now = Math.min(end, begin + Math.max(0, passed));
  const turn = ++jumps;
  isJumping = true;
  change({ now });
  try {
    // The log says where the first piece is that is not older; those up to that moment are due at once.
    const page = await output(id, { since: new Date(now).toISOString(), limit: 1, times: "true" });
    const place = passed <= 0 ? 0 : page.at;
    const shown = [];
    for (let at = Math.max(0, place - HISTORY_BYTES); at < place; ) {
      const { found, behind } = await fetched(at, Math.min(PAGE_BYTES, place - at));
      shown.push(...found);
      at = behind;
    }
    const following = await fetched(place, PAGE_BYTES);
    if (turn !== jumps) return; // somewhere else by then
    screen?.reset();
    for (const frame of shown) draw(frame);
    frames = following.found;
    position = following.behind;
    show();
  } finally {
    if (turn === jumps) isJumping = false;
  }
}

/** Draw what is due. */
function show() {
  const count = due(frames, player.value.now);
  for (const frame of frames.splice(0, count)) draw(frame);
}

async function fetchOn() {
  if (isFetching || frames.length > AHEAD_FRAMES || position >= total) return;
  isFetching = true;
  const turn = jumps;
  try {
    const { found, behind } = await fetched(position, PAGE_BYTES);
    if (turn !== jumps) return;
    frames.push(...found);
    position = behind;
  } finally {
    isFetching = false;
  }
}

/** Let time pass until the returned function is called. */
export function run() {
  let before = performance.now();
  const timer = setInterval(() => {
    const passed = performance.now() - before;
    before += passed;
    const { isPlaying, isReady, now, speed, end, skips } = player.value;
    if (!isPlaying || !isReady || isJumping || document.hidden) return;
    void fetchOn().catch(() => change({ isPlaying: false }));
    // What is on its way is waited for: time does not pass over it.
    if (frames.length === 0 && position < total) return;
    const then = later(now, { passed, speed, next: frames[0]?.time ?? null, end, skips });
    change({ now: then, isPlaying: then < end });
    show();
  }, TICK_MS);
  return () => {
    clearInterval(timer);
    jumps += 1;
    screen = null;
    frames = [];
    change({ id: "", isPlaying: false, isReady: false });
  };
}

/** Play or pause; at the end it begins anew. */
export async function toggle() {
  const { isPlaying, now, end, begin } = player.value;
  if (!isPlaying && now >= end && end > begin) await jump(0);
  change({ isPlaying: !isPlaying });
}
