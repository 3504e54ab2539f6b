// @ts-check
// One run beside an earlier one of the same command: duration, exit code, and the first line in which their outputs differ.
import { formatPlace, place, refine } from "../base/address.js";
import { attempt } from "../base/controls.js";
import { output } from "../base/output.js";
import { hear, link, request } from "../base/rpc.js";
import { html, signal } from "../base/ui.js";
import { size } from "../base/words.js";
import { lastRun } from "./last_run.js";
import { LineCutter, factsOf, firstDifference, withoutNumbers } from "./compare_model.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {import("./compare_model.js").Difference} Difference */

const PAGE_BYTES = 256 * 1024; // the most that one answer has
const STREAMS = /** @type {const} */ (["stdout", "stderr"]);
const MOST_RUNS = 50; // that are offered
const SHOWN = 2000; // characters of a line

/** What is compared, and what was found: `differences` has a stream once it was read as far as it had to be. */
const compared = signal({
  mark: "", one: /** @type {Process | null} */ (null), other: /** @type {Process | null} */ (null), runs: /** @type {Process[]} */ ([]), read: 0, isOver: false,
  differences: /** @type {Partial<Record<"stdout" | "stderr", Difference | null>>} */ ({}),
});

// What a lost connection has cut off begins anew.
hear((method) => method === "connected" && !compared.value.isOver && put({ mark: "" }));

/** @param {Partial<typeof compared.value>} change */
function put(change) {
  compared.value = { ...compared.value, ...change };
}

/**
 * Yield the lines of a stream, page by page; it ends where another comparison has begun.
 * @param {string} id @param {"stdout" | "stderr"} stream @param {string} mark
 */
async function* lines(id, stream, mark) {
  const cutter = new LineCutter();
  let cursor = "0";
  for (let hasMore = true; hasMore && compared.value.mark === mark; ) {
    const page = await output(id, { stream, cursor, limit: PAGE_BYTES });
    put({ read: compared.value.read + page.chunks.reduce((/** @type {number} */ sum, /** @type {{data?: string}} */ one) => sum + ((one.data ?? "").length * 3) / 4, 0) });
    for (const chunk of page.chunks) {
      if (chunk.gap) yield [{ text: `… ${chunk.to - chunk.from} bytes are no longer kept …`, isEnd: true }];
      else {
        yield cutter.take(Uint8Array.from(atob(chunk.data), (one) => one.charCodeAt(0)));
      }
    }
    cursor = page.cursor;
    hasMore = page.more;
  }
  yield cutter.finish();
}

/** @param {string} mark @param {string} id @param {string} second "" for the run before. */
async function compare(mark, id, second) {
  compared.value = { mark, one: null, other: null, runs: [], read: 0, isOver: false, differences: {} };
  const one = await request("get", { process_id: id });
  const isOther = (/** @type {Process} */ run) => run.process_id !== one.process_id;
  // The server knows every run that is kept, however long the page's own list is.
  const runs = (await request("list", { same_as: one.process_id, limit: MOST_RUNS })).processes.filter(isOther);
  const other = second ? await request("get", { process_id: second }) : await lastRun(one);
  if (compared.value.mark !== mark) return;
  if (other && !runs.some((/** @type {Process} */ run) => run.process_id === other.process_id)) runs.push(other);
  put({ one, other: other ?? null, runs, isOver: !other });
  if (!other) return;
  const same = place.value.query.numbers === "same" ? withoutNumbers : undefined;
  for (const stream of STREAMS) {
    const found = await firstDifference(lines(one.process_id, stream, mark), lines(other.process_id, stream, mark), same);
    if (compared.value.mark !== mark) return;
    put({ differences: { ...compared.value.differences, [stream]: found } });
  }
  put({ isOver: true });
}

export function CompareView() {
  const { id, second = "", query } = place.value;
  const mark = JSON.stringify([id, second, query.numbers]);
  if (link.value === "open" && compared.value.mark !== mark) queueMicrotask(() => compared.value.mark !== mark && void attempt(() => compare(mark, id, second)));
  const { one, other, runs, differences, isOver, read } = compared.value;
  if (!one) return html`<p class="empty" role="status">Loading</p>`;
  if (!other) return html`<p class="empty" role="status">No earlier run of <code>${one.command}</code> in this folder is kept.</p>`;
  const [mine, its] = [factsOf(one, Date.now()), factsOf(other, Date.now())];
  return html`<section class="compare" aria-label="Two runs compared">
    <p><code>${one.command}</code></p>
    <table>
      <thead><tr><th></th><${Run} process=${one} text="This run" /><${Run} process=${other} text="Compared with" /></tr></thead>
      <tbody>${mine.map(([name, value], place) => {
        const before = its[place]?.[1] ?? "";
        return html`<tr key=${name} class=${value === before ? "" : "differs"}><th scope="row">${name}</th><td>${value}</td><td>${before}</td></tr>`;
      })}</tbody>
    </table>
    <div class="bar">
      <${Runs} runs=${runs} other=${other} />
      <label><input type="checkbox" checked=${query.numbers === "same"} onChange=${() => refine({ numbers: query.numbers === "same" ? "" : "same" })} /> any number is like any other</label>
      <output aria-live="polite">${isOver ? `Compared, ${size(read)} read` : `Comparing, ${size(read)} read`}</output>
    </div>
    ${STREAMS.map((stream) => stream in differences && html`<${Found} key=${stream} stream=${stream} found=${differences[stream]} />`)}
  </section>`;
}

/** @param {{process: Process, text: string}} props */
function Run({ process, text }) {
  return html`<th scope="col">${text}<br /><a href=${`#/log/${process.process_id}`}>${new Date(process.created_at).toLocaleString()}</a></th>`;
}

/** Which run it is compared with. @param {{runs: Process[], other: Process}} props */
function Runs({ runs, other }) {
  const choose = (/** @type {Event} */ event) => {
    location.hash = formatPlace({ ...place.value, second: /** @type {HTMLSelectElement} */ (event.target).value });
  };
  return html`<select aria-label="Compared with" onChange=${choose}>
    ${runs.map((run) => html`<option value=${run.process_id} selected=${run.process_id === other.process_id}>${new Date(run.created_at).toLocaleString()}</option>`)}
  </select>`;
}

/** @param {{stream: string, found: Difference | null | undefined}} props */
function Found({ stream, found }) {
  const name = stream === "stdout" ? "Standard output" : "Standard error";
  if (!found) return html`<p role="status">${name} is the same.</p>`;
  return html`<div class="found" role="group" aria-label=${`First difference in ${stream}`}>
    <p role="status">${name} differs first in line ${found.line}.</p>
    <pre class="mine">${shownLine(found.one)}</pre>
    <pre class="its">${shownLine(found.other)}</pre>
  </div>`;
}

/** @param {string | null} text */
function shownLine(text) {
  if (text === null) return html`<i>It has ended before.</i>`;
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
