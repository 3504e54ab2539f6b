// @ts-check
// What takes the disk, by project, and what the server removes by itself.
import { place } from "../base/address.js";
import { request } from "../base/rpc.js";
import { html } from "../base/ui.js";
import { duration, size } from "../base/words.js";
import { asked } from "../base/asked.js";

/** @typedef {{project: string | null, processes: number, running: number, bytes: number, reclaimable_bytes: number}} Share */
/** @typedef {{rule: "age" | "count" | "size", limit: number | null, used: number, processes: number, bytes: number, next_at?: string}} Rule */
/** @typedef {{processes: number, bytes: number, own_bytes: number, free_bytes: number, total_bytes: number, projects: Share[], retention: Rule[]}} Disk */

const EACH_MS = 60_000; // every folder is looked at
const disk = asked(
  () => (place.value.view === "machine" && place.value.query.show === "disk" ? "disk" : ""),
  async () => /** @type {Disk} */ (await request("disk")),
  EACH_MS,
);
const RULES = { age: "By age", count: "By number", size: "By output" };

export function DiskView() {
  if (disk.value === null) return html`<p class="empty">Loading</p>`;
  const { found } = disk.value;
  const most = Math.max(1, ...found.projects.map((one) => one.bytes));
  const said = (/** @type {Rule} */ rule, /** @type {number} */ value) => (rule.rule === "age" ? duration(value) : rule.rule === "size" ? size(value) : String(value));
  return html`<p class="summary">${`${size(found.bytes)} of ${found.processes} processes, ${size(found.own_bytes)} of the server's own, ${size(found.free_bytes)} free of ${size(found.total_bytes)}.`}</p>
    <table tabindex="0" aria-label="Disk by project"><thead><tr><th>Project</th><th>Processes</th><th>Run</th><th>Size</th><th>Ended</th><th aria-hidden="true"></th></tr></thead>
      <tbody>${found.projects.map((one) => html`<tr key=${one.project}><td>${one.project ?? "none"}</td><td>${one.processes}</td><td>${one.running}</td><td>${size(one.bytes)}</td><td>${size(one.reclaimable_bytes)}</td>
        <td aria-hidden="true" class="share"><span style=${{ width: `${(one.bytes / most) * 100}%` }}></span></td></tr>`)}</tbody>
    </table>
    <h2>What the server removes</h2>
    <table tabindex="0"><thead><tr><th>Rule</th><th>Limit</th><th>Used</th><th>Goes next</th><th>Then</th></tr></thead>
      <tbody>${found.retention.map((one) => html`<tr key=${one.rule}><td>${RULES[one.rule]}</td><td>${one.limit === null ? "none" : said(one, one.limit)}</td><td>${said(one, one.used)}</td>
        <td>${one.processes ? `${one.processes} (${size(one.bytes)})` : "nothing"}</td><td>${one.next_at ? new Date(one.next_at).toLocaleString() : ""}</td></tr>`)}</tbody>
    </table>`;
}
