// @ts-check
// The window of a log that is in memory: a megabyte around what is looked at, read by position. Whatever the log's size, it costs that much.
import { place, refine } from "../base/address.js";
import { attempt, repeated } from "../base/controls.js";
import { output } from "../base/output.js";
import { request } from "../base/rpc.js";
import { signal } from "../base/ui.js";
import { lives } from "../base/words.js";
import { parseRange, rowAt, rowsOf } from "./log_folds.js";
import { lengthOf, linesOf, newlinesIn, piecesOf } from "./log_model.js";

/** @typedef {import("./log_model.js").Piece} Piece */
/** @typedef {import("./log_folds.js").Row} Row */
/** @typedef {import("../base/words.js").Process} Process */

export const LINE_PX = 20; // as style.css draws a line
const PAGE_BYTES = 128 * 1024; // 2,000 lines of code, 10 ms to draw
const WINDOW_BYTES = 8 * PAGE_BYTES; // beyond that the far end is let go
const EACH_MS = 300; // between two looks for more, while the page follows
const NEAR_PX = 40 * LINE_PX;
const BEFORE_BYTES = 4096; // of what stands before a position that is jumped to, so that it is read in its place

const NOTHING = { id: "", pieces: /** @type {Piece[]} */ ([]), rows: /** @type {Row[]} */ ([]), first: /** @type {number | null} */ (null), total: 0 };
/** What is shown now: pieces without holes between them. `first` is the number of the first line, where it is known. */
export const log = signal(NOTHING);
export const isFollowing = signal(true);
export const seen = signal(0); // the position of the first line in sight
export const opened = signal(/** @type {Process | null} */ (null));
/** @type {Map<number, boolean>} Steps that were opened or closed by hand, by their offset. */
let chosen = new Map();
let isReading = false;
/** @type {HTMLElement | null} */
let scroller = null;
let lastTop = 0; // where it was scrolled to before

const begin = () => log.value.pieces[0]?.offset ?? 0;
const end = () => begin() + lengthOf(log.value.pieces);

/** @param {HTMLElement | null} found The element that scrolls. */
export function scrollIn(found) {
  scroller = found;
}

/** @param {Piece[]} pieces @param {number | null} first */
function show(pieces, first) {
  log.value = { ...log.value, pieces, first, rows: rowsOf(linesOf(pieces), { first, chosen }) };
}

/** Open or close a step. @param {number} offset @param {boolean} isOpen */
export function fold(offset, isOpen) {
  chosen.set(offset, isOpen);
  show(log.value.pieces, log.value.first);
}

const say = repeated();
/** Read one page at a time, by itself. @param {() => Promise<void>} deed */
async function reading(deed) {
  if (isReading) return;
  isReading = true;
  await say(deed);
  isReading = false;
}

/** Show the log from a place on; the window begins anew. @param {{at: number} | {line: number} | {since: string}} from */
async function jump(from) {
  const { id } = log.value;
  const page = await output(id, { ...from, limit: PAGE_BYTES, times: "true" });
  if (log.value.id !== id) return;
  const isFirst = page.at === 0;
  // Of a log with fewer lines the end is shown, whose number is not known.
  const number = "line" in from && page.chunks.length ? from.line : null;
  show(piecesOf(page.chunks, page.at), isFirst ? 1 : number);
  lastTop = 0;
}

/** Scroll to a position of the window. @param {number} offset @param {number} above Rows above it. */
function scrollTo(offset, above) {
  requestAnimationFrame(() => {
    if (scroller) scroller.scrollTop = Math.max(0, rowAt(log.value.rows, offset) - above) * LINE_PX;
    seen.value = offset;
  });
}

/** Show a position with what stands before it; the window begins anew where it is not in it. @param {number} offset */
export async function showAt(offset) {
  isFollowing.value = false;
  if (offset < begin() || offset >= end()) await jump({ at: Math.max(0, offset - BEFORE_BYTES) });
  scrollTo(offset, 5);
}

/** @param {number} number */
export async function showLine(number) {
  isFollowing.value = false;
  await jump({ line: Math.max(1, number) });
  scrollTo(begin(), 0);
  const line = log.value.rows[0]?.line;
  if (line) refine({ at: String(line.offset), lines: `${line.offset}-${line.end}` });
}

async function readOn() {
  const { id, pieces, rows, first } = log.value;
  const from = end();
  const page = await output(id, { at: from, limit: PAGE_BYTES, times: "true" });
  if (log.value.id !== id || page.chunks.length === 0) return;
  const kept = [...pieces, ...piecesOf(page.chunks, from)];
  const dropped = [];
  while (lengthOf(kept) > WINDOW_BYTES && kept.length > 1) dropped.push(/** @type {Piece} */ (kept.shift()));
  const gone = dropped.length ? rowAt(rows, (kept[0]?.offset ?? 0) - 1) + 1 : 0;
  show(kept, first === null ? null : first + newlinesIn(dropped));
  // What is in sight stays where it is, when lines above it go.
  if (scroller && gone && !isFollowing.value) scroller.scrollTop -= gone * LINE_PX;
}

async function readBack() {
  const { id, pieces, rows, first } = log.value;
  const to = begin();
  const from = Math.max(0, to - PAGE_BYTES);
  if (from === to) return;
  /** @type {Piece[]} */
  const before = [];
  // Where pieces are many, a page has fewer bytes than were asked for: a hole must not stay.
  for (let at = from; at < to; ) {
    const page = await output(id, { at, limit: to - at, times: "true" });
    const pieces = piecesOf(page.chunks, at);
    if (log.value.id !== id || begin() !== to || pieces.length === 0) return;
    before.push(...pieces);
    at += lengthOf(pieces);
  }
  const kept = [...before, ...pieces];
  while (lengthOf(kept) > WINDOW_BYTES && kept.length > 1) kept.pop();
  const anchor = rows[0]?.line.end ?? 0;
  show(kept, from === 0 ? 1 : first === null ? null : first - newlinesIn(before));
  const grown = log.value.rows.findIndex(({ line }) => line.end >= anchor);
  // At once, so that no frame shows other lines: the page is drawn when a value changes.
  if (scroller && grown > 0) scroller.scrollTop += grown * LINE_PX;
}

/** @returns {Promise<number>} How many bytes there are now. */
async function look() {
  const { id } = log.value;
  const process = await request("get", { process_id: id });
  const total = process.stdout_bytes + process.stderr_bytes;
  if (log.value.id !== id) return total;
  opened.value = process;
  log.value = { ...log.value, total };
  return total;
}

export async function toEnd() {
  isFollowing.value = true;
  if (place.value.query.at) refine({ at: "" });
  const total = await look();
  if (total - end() > PAGE_BYTES || end() > total) await jump({ at: Math.max(0, total - PAGE_BYTES) });
  else await readOn();
  requestAnimationFrame(() => scroller && (scroller.scrollTop = scroller.scrollHeight));
}

export async function toBeginning() {
  isFollowing.value = false;
  await jump({ at: 0 });
  requestAnimationFrame(() => scroller && (scroller.scrollTop = 0));
}

/** What ended and was read to its end changes no more; a page that is not looked at asks nothing. */
function mayFollow() {
  if (place.value.view !== "log" || document.hidden || !isFollowing.value || log.value.id !== place.value.id) return false;
  const process = opened.value;
  return process === null || lives(process) || end() < log.value.total;
}

setInterval(() => {
  if (!mayFollow()) return;
  void reading(async () => {
    const total = await look();
    if (total > end()) await toEnd();
  });
}, EACH_MS);

// The page itself changes its address without this event: a person has gone elsewhere, or to other lines of the same log.
globalThis.addEventListener?.("hashchange", () => (log.value = NOTHING));

/** @param {string} id */
export function open(id) {
  chosen = new Map();
  log.value = { ...NOTHING, id };
  opened.value = null;
  const { at, lines } = place.value.query;
  const range = parseRange(lines);
  isFollowing.value = at === undefined && range === null;
  void attempt(async () => {
    const total = await look();
    if (at === undefined && range) await showAt(range.from);
    else if (at === undefined) await toEnd();
    else await jump({ at: Math.min(Number(at) || 0, total) });
  });
}

export function scrolled() {
  if (!scroller) return;
  const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  // Only a person scrolls up: what is written makes the list longer, and what is let go makes it end earlier.
  const isUp = scroller.scrollTop < lastTop;
  lastTop = scroller.scrollTop;
  if (isFollowing.value && isUp && below > 2 * LINE_PX) isFollowing.value = false;
  if (scroller.scrollTop < NEAR_PX && begin() > 0) void reading(readBack);
  else if (below < NEAR_PX && end() < log.value.total) void reading(readOn);
  const first = log.value.rows[Math.floor(scroller.scrollTop / LINE_PX)]?.line;
  if (first) seen.value = first.offset;
  if (first && !isFollowing.value) refine({ at: String(first.offset) });
}
