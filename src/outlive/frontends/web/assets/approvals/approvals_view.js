// @ts-check
// What waits for a person: everything that decides what would run, and two answers. Made to be read on a phone, too.
import { approvals, approve, changedAt, decides, deny, reveal, revealed } from "./approvals.js";
import { isCalm } from "../base/calm.js";
import { attempt } from "../base/controls.js";
import { now } from "../base/now.js";
import { html, useState } from "../base/ui.js";
import { duration, quoted, spelled } from "../base/words.js";

/** @typedef {import("./approvals.js").Approval} Approval */

export function ApprovalsView() {
  if (!decides()) return html`<p class="empty">Approvals are decided by a page with the scope admin: <code>outlive ui</code> opens one.</p>`;
  const waiting = approvals.value;
  return html`<section class="cards" aria-label="Approvals">
    <p class="empty" role="status">${waiting.length ? `${waiting.length} waiting, oldest first` : "Nothing waits for an approval."}</p>
    ${waiting.map((one) => html`<${Card} key=${one.digest} one=${one} />`)}
  </section>`;
}

/** @param {{one: Approval}} props */
function Card({ one }) {
  const [reason, setReason] = useState("");
  const shown = revealed.value.get(one.digest) ?? one;
  const isReady = isCalm(changedAt.value);
  const left = one.expires_at === null ? "" : `, refused in ${duration((Date.parse(one.expires_at) - now.value) / 1000)}`;
  const facts = [
    ["Folder", spelled(shown.cwd)],
    ["Asked by", spelled(shown.principal)],
    ["Why", spelled(shown.reason)],
    ["Profile", shown.profile],
    ["Where", shown.location && spelled(Object.values(shown.location).join(" "))],
    ["Variables", Object.entries(shown.env).map(([name, value]) => spelled(value === null ? `-${name}` : `${name}=${value}`)).join("  ")],
    ["Group", shown.group && spelled(shown.group)],
    ["Waits", `${duration((now.value - Date.parse(one.since)) / 1000)}${left}`],
  ].filter(([, value]) => value);
  return html`<article class="card" aria-label=${`Approval of ${quoted(shown.argv.slice(0, 3))}`}>
    <pre class="words">${quoted(shown.argv)}</pre>
    ${shown.script !== null && html`<details open=${shown.script_bytes < 2000}><summary>Script, ${shown.script_bytes} bytes</summary><pre>${spelled(shown.script, { lines: true })}</pre>
      ${isCut(shown) && html`<p class="trouble">CUT: this is only its beginning.</p>`}</details>`}
    <dl>${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${shown.redacted && html`<p>${shown.redacted} values are hidden. <button onClick=${() => void attempt(() => reveal(one))}>Show them</button></p>`}
    <div class="answers">
      <button class="yes" disabled=${!isReady} onClick=${() => void attempt(() => approve(one))}>Approve</button>
      <form onSubmit=${(/** @type {Event} */ event) => {
        event.preventDefault();
        void attempt(() => deny(one, reason));
      }}>
        <input aria-label="Why not" placeholder="Why not (one sentence)" value=${reason} maxlength="500" onInput=${(/** @type {Event} */ event) => setReason(/** @type {HTMLInputElement} */ (event.target).value)} />
        <button class="no" disabled=${!isReady}>Deny</button>
      </form>
    </div>
    <${Always} one=${shown} isReady=${isReady} />
  </article>`;
}

/** Approving for always: first everything that it would approve, then the button. @param {{one: Approval, isReady: boolean}} props */
function Always({ one, isReady }) {
  if (one.always === null) return html`<p class="only-once">Approved once only. ${spelled(one.only_once)}</p>`;
  return html`<details class="always"><summary>Always in this project</summary>
    <p>From now on nobody is asked when exactly ${one.always.commands.length === 1 ? "this runs" : "these run together"}, with the same variables, input and profile, while the files that ${one.always.commands.length === 1 ? "it names" : "they name"} hold what they hold now, below <b>${spelled(one.always.project)}</b>:</p>
    ${one.always.commands.map((words) => html`<pre class="words">${quoted(words)}</pre>`)}
    <p>What lies in folders, and what a program reads by itself (a build file, settings, tests), may change, and runs as well.</p>
    <p><code>outlive policy always</code> lists what is approved so, <code>outlive policy forget</code> takes it back.</p>
    <button class="yes-always" disabled=${!isReady} onClick=${() => void attempt(() => approve(one, true))}>Approve, now and always</button>
  </details>`;
}

/** @param {Approval} one */
function isCut(one) {
  return one.script !== null && one.script_bytes > Math.max(new TextEncoder().encode(one.script).length, 65536);
}
