// @ts-check
// Where commands run beside this machine: the other servers, whether they are reached, and what lives in which place and container.
import { place } from "../base/address.js";
import { asked } from "../base/asked.js";
import { living, version } from "../base/processes.js";
import { request } from "../base/rpc.js";
import { html } from "../base/ui.js";
import { placesOf } from "./machine_model.js";

/** @typedef {{name: string, address: string | null, state: "connected" | "away", since: string, reason: string | null, hint: string | null, processes: number}} Node */

const EACH_MS = 5000; // what is known of them; none of them is asked
const nodes = asked(
  () => (place.value.view === "machine" && place.value.query.show === "places" ? "nodes" : ""),
  async () => /** @type {{nodes: Node[]}} */ (await request("nodes")).nodes,
  EACH_MS,
);

export function PlacesView() {
  void version.value;
  if (nodes.value === null) return html`<p class="empty">Loading</p>`;
  const { found } = nodes.value;
  return html`<h2>Other servers</h2>
    ${found.length === 0
      ? html`<p class="empty">None is named: <code>--node</code> names one (docs/remote.md).</p>`
      : html`<table tabindex="0" aria-label="Other servers"><thead><tr><th>Name</th><th>State</th><th>Address</th><th>Since</th><th>Processes</th><th></th></tr></thead>
        <tbody>${found.map((one) => html`<tr key=${one.name}><td>${one.name}</td><td class=${one.state === "away" ? "bad" : "good"}>${one.state}</td><td>${one.address ?? "named by no setting"}</td><td>${new Date(one.since).toLocaleString()}</td><td>${one.processes}</td><td>${[one.reason, one.hint].filter(Boolean).join(" ")}</td></tr>`)}</tbody>
      </table>`}
    <h2>What lives where</h2>
    <table tabindex="0" aria-label="What lives where"><thead><tr><th>Place</th><th>Container</th><th>Image</th><th>Processes</th></tr></thead>
      <tbody>${placesOf(living()).map((one) => html`<tr key=${`${one.backend} ${one.container}`}><td>${one.backend || "This machine"}</td><td>${one.container}</td><td>${one.image}</td>
        <td>${one.processes.slice(0, 8).map((process, index) => html`${index > 0 && ", "}<a href=${`#/log/${process.process_id}`}>${process.name ?? process.short_id ?? process.process_id.slice(-6)}</a>`)}${one.processes.length > 8 && ` and ${one.processes.length - 8} more`}</td></tr>`)}</tbody>
    </table>`;
}
