// @ts-check
// What `outlive doctor` finds where the server runs: what is missing first, with what follows from it and what cures it. For admins.
import { place } from "../base/address.js";
import { asked } from "../base/asked.js";
import { request, scope } from "../base/rpc.js";
import { html } from "../base/ui.js";

/** @typedef {{name: string, ok: boolean, importance: "required" | "optional" | "fact", detail: string, consequence: string, cure: string}} Check */

const EACH_MS = 60_000; // the server starts a program for it
const checks = asked(
  () => (place.value.view === "machine" && place.value.query.show === "checks" && scope.value === "admin" ? "checks" : ""),
  async () => /** @type {{version: string, state_dir: string, ok: boolean, checks: Check[]}} */ (await request("checks")),
  EACH_MS,
);

/** @param {Check} one @returns {{word: string, tone: string, place: number}} */
export function judged(one) {
  if (one.ok) return { word: "ok", tone: "good", place: 3 };
  if (one.importance === "required") return { word: "missing", tone: "bad", place: 0 };
  return one.importance === "optional" ? { word: "degraded", tone: "held", place: 1 } : { word: "no", tone: "", place: 2 };
}

export function ChecksView() {
  if (checks.value === null) return html`<p class="empty">Looking, which takes some seconds.</p>`;
  const { found } = checks.value;
  const degraded = found.checks.filter((one) => judged(one).place === 1).length;
  const sorted = [...found.checks].sort((a, b) => judged(a).place - judged(b).place);
  return html`<p class="summary">${`outlive ${found.version} ${found.ok ? "runs here" : "cannot run here"}, ${degraded ? `${degraded} of ${found.checks.length} things are degraded` : "and nothing is degraded"}.`}</p>
    <p class="empty">State folder: <code>${found.state_dir}</code></p>
    <table tabindex="0" aria-label="Checks"><thead><tr><th></th><th>What</th><th>Found</th><th>What to do</th></tr></thead>
      <tbody>${sorted.map((one) => html`<tr key=${one.name}><td class=${judged(one).tone}>${judged(one).word}</td><td>${one.name}</td><td>${one.detail}${!one.ok && one.consequence && `; so ${one.consequence}`}</td><td>${!one.ok && one.cure}</td></tr>`)}</tbody>
    </table>`;
}
