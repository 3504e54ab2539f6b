// @ts-check
// What the audit log says of one process, beside its output: who started it, did something to it, and how it ended. For admins alone.
import { place, refine } from "../base/address.js";
import { asked } from "../base/asked.js";
import { request, scope } from "../base/rpc.js";
import { html } from "../base/ui.js";

/** @typedef {Record<string, string | number | string[] | null>} Entry As docs/audit.md describes it. */

const EACH_MS = 3000; // an entry is there some 50 ms after what it is about
const MOST = 200; // of one process: who typed much has counted entries
// Shown in columns of their own, or said by the page already.
const KNOWN = new Set(["n", "at", "what", "principal", "door", "address", "decision", "reason", "process_id", "pid", "command", "connection", "request"]);

const isOpen = () => place.value.query.audit === "1";
const entries = asked(
  () => (place.value.view === "log" && scope.value === "admin" && isOpen() ? place.value.id : ""),
  async () => /** @type {{entries: Entry[], more: boolean}} */ (await request("audit", { process_id: place.value.id, limit: MOST })),
  EACH_MS,
);

/** @param {Entry} entry @returns {string} What is said nowhere else: "exit 3, bytes 120". */
export function restOf(entry) {
  return Object.entries(entry)
    .filter(([name, value]) => !KNOWN.has(name) && value !== null)
    .map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(", ") : value}`)
    .join(", ");
}

export function AuditEntries() {
  if (scope.value !== "admin") return null;
  const found = entries.value?.key === place.value.id ? entries.value.found : null;
  const toggled = (/** @type {Event} */ event) => {
    const { open } = /** @type {HTMLDetailsElement} */ (event.target);
    if (open !== isOpen()) refine({ audit: open ? "1" : "" });
  };
  return html`<details class="audit" open=${isOpen()} onToggle=${toggled}>
    <summary>Who did what</summary>
    ${isOpen() && (found === null ? html`<p class="empty">Loading</p>` : html`<${Table} entries=${found.entries} more=${found.more} />`)}
  </details>`;
}

/** @param {{entries: Entry[], more: boolean}} props Newest first, as the log has them; shown with the oldest first. */
function Table({ entries: found, more }) {
  if (found.length === 0) return html`<p class="empty">The audit log has nothing about it: it is older than the log, or the server keeps none.</p>`;
  return html`${more && html`<p class="empty">The newest ${MOST}: <code>outlive audit show --process ID</code> has all.</p>`}
    <table><thead><tr><th>When</th><th>What</th><th>Who</th><th>By</th><th></th></tr></thead>
      <tbody>${[...found].reverse().map((one) => html`<tr key=${one.n}>
        <td>${new Date(String(one.at)).toLocaleString()}</td>
        <td class=${one.decision === "denied" || one.decision === "failed" ? "bad" : ""}>${one.what}${one.decision && one.decision !== "allowed" && `, ${one.decision}`}${one.reason && `: ${one.reason}`}</td>
        <td>${one.principal}</td><td>${[one.door, one.address].filter(Boolean).join(", ")}</td><td>${restOf(one)}</td>
      </tr>`)}</tbody>
    </table>`;
}
