// @ts-check
// Starts, failures, time and output by time and project, and what lives now takes.
import { place, refine } from "../base/address.js";
import { projects } from "../base/processes.js";
import { request } from "../base/rpc.js";
import { html } from "../base/ui.js";
import { duration, size } from "../base/words.js";
import { asked } from "../base/asked.js";
import { Chart } from "./chart.js";
import { columnsOf, spanAsked, SPANS, sumOf } from "./machine_model.js";
import { usage } from "./usage.js";

/** @typedef {import("./machine_model.js").Counts & {project: string | null}} ProjectCounts */
/** @typedef {{buckets: import("./machine_model.js").Bucket[], bucket_s: number, projects: ProjectCounts[], complete: boolean}} Statistics */

const EACH_MS = 60_000; // the smallest bucket is a minute
const isShown = () => place.value.view === "machine" && (place.value.query.show ?? "activity") === "activity";
const keyOf = () => (isShown() ? `${place.value.query.span ?? "day"} ${place.value.query.project ?? ""}` : "");
const statistics = asked(
  keyOf,
  async () => {
    const { span, project } = place.value.query;
    const found = /** @type {Statistics} */ (await request("statistics", { ...spanAsked(span, Date.now()), project: project || undefined }));
    return { ...found, columns: columnsOf(found.buckets, found.bucket_s) };
  },
  EACH_MS,
);
const STARTS = /** @type {const} */ ([{ label: "started", colour: "accent", shape: "bars" }, { label: "failed", colour: "bad", shape: "bars" }]);
const RUNNING = /** @type {const} */ ([{ label: "at a time", colour: "good", shape: "line" }]);
const OUTPUT = /** @type {const} */ ([{ label: "output", colour: "accent", shape: "bars" }]);
const PROCESSORS = /** @type {const} */ ([{ label: "processors", colour: "held", shape: "line" }]);
const MEMORY = /** @type {const} */ ([{ label: "memory", colour: "accent", shape: "line" }]);
const whole = (/** @type {number} */ value) => String(Math.round(value * 100) / 100);

export function ActivityView() {
  const { query } = place.value;
  const answer = statistics.value?.key === keyOf() ? statistics.value.found : null;
  const known = [...new Set([...projects(), ...(query.project ? [query.project] : [])])].sort();
  const change = (/** @type {string} */ name) => (/** @type {Event} */ event) => refine({ [name]: /** @type {HTMLSelectElement} */ (event.target).value });
  const [, processors = [], memory = []] = usage.value.columns;
  return html`<div class="filter">
      <select aria-label="Span" onChange=${change("span")}>
        ${Object.entries(SPANS).map(([name, { text }]) => html`<option value=${name} selected=${name === (query.span ?? "day")}>${text}</option>`)}
      </select>
      ${known.length > 0 && html`<select aria-label="Project" onChange=${change("project")}>
        <option value="" selected=${!query.project}>All projects</option>
        ${known.map((one) => html`<option value=${one} selected=${one === query.project}>${one}</option>`)}
      </select>`}
    </div>
    ${answer === null ? html`<p class="empty">Loading</p>` : html`<${Past} answer=${answer} />`}
    <h2>What lives now</h2>
    ${processors.length === 0
      ? html`<p class="empty">Looked at every five seconds, while this is shown.</p>`
      : html`<div class="charts">
        <${Chart} title="Processors" words=${`${whole(processors.at(-1) ?? 0)} busy now`} series=${PROCESSORS} columns=${[usage.value.columns[0], processors]} say=${whole} />
        <${Chart} title="Memory" words=${`${size(memory.at(-1) ?? 0)} now`} series=${MEMORY} columns=${[usage.value.columns[0], memory]} say=${size} />
      </div>
      ${usage.value.leftOut > 0 && html`<p class="empty">${`The newest are looked at; ${usage.value.leftOut} older ones are not.`}</p>`}
      <table tabindex="0"><thead><tr><th>Project</th><th>Processors</th><th>Memory</th></tr></thead>
        <tbody>${[...usage.value.projects].map(([name, one]) => html`<tr><td>${name || "none"}</td><td>${whole(one.processors)}</td><td>${size(one.memory_bytes)}</td></tr>`)}</tbody>
      </table>`}`;
}

/** @param {{answer: Statistics & {columns: ReturnType<typeof columnsOf>}}} props */
function Past({ answer }) {
  const { buckets, columns } = answer;
  const sum = sumOf(buckets);
  return html`<div class="charts">
      <${Chart} title="Starts" words=${`${sum.started} started, ${sum.failed} failed`} series=${STARTS} columns=${columns.starts} say=${whole} />
      <${Chart} title="Running" words=${`${duration(sum.run_s)} in all`} series=${RUNNING} columns=${columns.running} say=${whole} />
      <${Chart} title="Output" words=${size(sum.output_bytes)} series=${OUTPUT} columns=${columns.output} say=${size} />
    </div>
    ${!answer.complete && html`<p class="away">More processes lived then than are counted; the oldest are left out.</p>`}
    <table tabindex="0" aria-label="By project"><thead><tr><th>Project</th><th>Started</th><th>Ended</th><th>Failed</th><th>Stopped</th><th>Ran</th><th>Output</th></tr></thead>
      <tbody>${answer.projects.map((one) => html`<tr key=${one.project}><td>${one.project ?? "none"}</td><${Numbers} of=${one} /></tr>`)}</tbody>
    </table>
    <details><summary>By time, as a table</summary>
      <table tabindex="0"><thead><tr><th>From</th><th>Started</th><th>Ended</th><th>Failed</th><th>Stopped</th><th>Ran</th><th>Output</th></tr></thead>
        <tbody>${buckets.filter((one) => one.started || one.ended || one.run_s).map((one) => html`<tr key=${one.at}><td>${new Date(one.at).toLocaleString()}</td><${Numbers} of=${one} /></tr>`)}</tbody>
      </table>
    </details>`;
}

/** @param {{of: import("./machine_model.js").Counts}} props */
function Numbers({ of: one }) {
  return html`<td>${one.started}</td><td>${one.ended}</td><td class=${one.failed ? "bad" : ""}>${one.failed}</td><td>${one.stopped}</td><td>${duration(one.run_s)}</td><td>${size(one.output_bytes)}</td>`;
}
