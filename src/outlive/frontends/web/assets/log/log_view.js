// @ts-check
// One process's output: its beginning, its end, and everything between, read by position. Whatever its size, a window of it is in memory.
import { place, refine } from "../base/address.js";
import { Controls, attempt } from "../base/controls.js";
import { lengthOf, linesOf, piecesOf } from "./log_model.js";
import { output } from "../base/output.js";
import { processOf, version } from "../base/processes.js";
import { request } from "../base/rpc.js";
import { Rows } from "../base/rows.js";
import { html, signal } from "../base/ui.js";
import { lives, size, stateOf, timeOf, toneOf } from "../base/words.js";

/** @typedef {import("./log_model.js").Piece} Piece */
/** @typedef {import("../base/words.js").Process} Process */

const LINE_PX = 20; // as style.css draws a line
const PAGE_BYTES = 128 * 1024; // 2,000 lines of code, 10 ms to draw
const WINDOW_BYTES = 8 * PAGE_BYTES; // beyond that the far end is let go
const EACH_MS = 300; // between two looks for more, while the page follows
const NEAR_PX = 40 * LINE_PX;

/** What is shown now: pieces without holes between them. */
const log = signal({ id: "", pieces: /** @type {Piece[]} */ ([]), lines: /** @type {import("./log_model.js").Line[]} */ ([]), total: 0 });
const isFollowing = signal(true);
const seen = signal(0); // the position of the first line in sight
const opened = signal(/** @type {Process | null} */ (null));
let isReading = false;
/** @type {HTMLElement | null} */
let scroller = null;
let lastTop = 0; // where it was scrolled to before

const begin = () => log.value.pieces[0]?.offset ?? 0;
const end = () => begin() + lengthOf(log.value.pieces);

/** @param {Piece[]} pieces */
function show(pieces) {
  log.value = { ...log.value, pieces, lines: linesOf(pieces) };
}

/** Read one page at a time. @param {() => Promise<void>} deed */
async function reading(deed) {
  if (isReading) return;
  isReading = true;
  await attempt(deed);
  isReading = false;
}

/** Show the log around a position; the window begins anew. @param {number} at */
async function jump(at) {
  const { id } = log.value;
  const from = Math.max(0, at);
  const page = await output(id, { at: from, limit: PAGE_BYTES });
  if (log.value.id === id) show(piecesOf(page.chunks, from));
}

async function readOn() {
  const { id, pieces } = log.value;
  const from = end();
  const page = await output(id, { at: from, limit: PAGE_BYTES });
  if (log.value.id !== id || page.chunks.length === 0) return;
  const kept = [...pieces, ...piecesOf(page.chunks, from)];
  const dropped = [];
  while (lengthOf(kept) > WINDOW_BYTES && kept.length > 1) dropped.push(kept.shift());
  const lines = dropped.length ? log.value.lines.length : 0;
  show(kept);
  // What is in sight stays where it is, when lines above it go.
  if (scroller && dropped.length && !isFollowing.value) scroller.scrollTop -= Math.max(0, lines - log.value.lines.length) * LINE_PX;
}

async function readBack() {
  const { id, pieces, lines } = log.value;
  const to = begin();
  const from = Math.max(0, to - PAGE_BYTES);
  if (from === to) return;
  const page = await output(id, { at: from, limit: to - from });
  if (log.value.id !== id) return;
  const kept = [...piecesOf(page.chunks, from), ...pieces];
  while (lengthOf(kept) > WINDOW_BYTES && kept.length > 1) kept.pop();
  show(kept);
  const grown = log.value.lines.length - lines.length;
  requestAnimationFrame(() => scroller && grown > 0 && (scroller.scrollTop += grown * LINE_PX));
}

/** @returns {Promise<number>} How many bytes there are now. */
async function look() {
  const process = await request("get", { process_id: log.value.id });
  opened.value = process;
  const total = process.stdout_bytes + process.stderr_bytes;
  log.value = { ...log.value, total };
  return total;
}

async function toEnd() {
  isFollowing.value = true;
  if (place.value.query.at) refine({ at: "" });
  const total = await look();
  if (total - end() > PAGE_BYTES || end() > total) await jump(total - PAGE_BYTES);
  else await readOn();
  requestAnimationFrame(() => scroller && (scroller.scrollTop = scroller.scrollHeight));
}

async function toBeginning() {
  isFollowing.value = false;
  await jump(0);
  requestAnimationFrame(() => scroller && (scroller.scrollTop = 0));
}

setInterval(() => {
  if (place.value.view !== "log" || document.hidden || !isFollowing.value || log.value.id !== place.value.id) return;
  void reading(async () => {
    const total = await look();
    if (total > end()) await toEnd();
  });
}, EACH_MS);

/** @param {string} id */
function open(id) {
  log.value = { id, pieces: [], lines: [], total: 0 };
  opened.value = null;
  const at = place.value.query.at;
  isFollowing.value = at === undefined;
  void attempt(async () => {
    const total = await look();
    await (at === undefined ? toEnd() : jump(Math.min(Number(at) || 0, total)));
  });
}

function scrolled() {
  if (!scroller) return;
  const below = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
  // Only a person scrolls up: what is written makes the list longer, and what is let go makes it end earlier.
  const isUp = scroller.scrollTop < lastTop;
  lastTop = scroller.scrollTop;
  if (isFollowing.value && isUp && below > 2 * LINE_PX) isFollowing.value = false;
  if (scroller.scrollTop < NEAR_PX && begin() > 0) void reading(readBack);
  else if (below < NEAR_PX && end() < log.value.total) void reading(readOn);
  const first = log.value.lines[Math.floor(scroller.scrollTop / LINE_PX)];
  if (first) seen.value = first.offset;
  if (first && !isFollowing.value) refine({ at: String(first.offset) });
}

export function LogView() {
  void version.value;
  const { id } = place.value;
  if (log.value.id !== id) queueMicrotask(() => log.value.id !== place.value.id && open(place.value.id));
  const process = opened.value ?? processOf(id);
  const { lines, total } = log.value;
  const isBelow = process !== undefined && process !== null && lives(process);
  return html`<section class="log" aria-label="Output">
    <div class="bar">
      ${process && html`<span class=${`state ${toneOf(process)}`}>${stateOf(process)}</span>
        <b>${process.name ?? process.short_id ?? id.slice(-6)}</b> <code class="command" title=${process.command}>${process.command}</code>
        <span class="time">${timeOf(process, Date.now())}</span>${process.stdio === "pty" && html`<a href=${`#/terminal/${id}`}>Terminal</a>`}<${Controls} process=${process} />`}
    </div>
    <div class="bar">
      <button onClick=${() => void attempt(toBeginning)}>Beginning</button>
      <button onClick=${() => void attempt(toEnd)} aria-pressed=${isFollowing.value}>${isBelow ? "Follow" : "End"}</button>
      <input type="range" aria-label="Position in the output" min="0" max=${total} value=${seen.value} onChange=${(/** @type {Event} */ event) => {
        isFollowing.value = false;
        void attempt(() => jump(Number(/** @type {HTMLInputElement} */ (event.target).value)));
      }} />
      <output>${size(seen.value)} of ${size(total)}</output>
    </div>
    <${Rows} count=${lines.length} height=${LINE_PX} label="Lines of output" onScrolled=${scrolled} onPlace=${(/** @type {HTMLElement | null} */ found) => (scroller = found)}
      row=${(/** @type {number} */ index) => html`<${Line} key=${index} line=${lines[index]} />`} />
  </section>`;
}

/** @param {{line: import("./log_model.js").Line}} props */
function Line({ line }) {
  return html`<div class=${`line ${line.stream}${line.isGap ? " gap" : ""}`} role="row"><span role="cell">${line.spans.map(
    (one) => (one.classes ? html`<span class=${one.classes}>${one.text}</span>` : one.text),
  )}</span></div>`;
}
