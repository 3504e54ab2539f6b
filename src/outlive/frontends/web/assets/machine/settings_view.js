// @ts-check
// The settings in effect, read only, with where each comes from. For admins.
import { place, refine } from "../base/address.js";
import { asked } from "../base/asked.js";
import { request, scope } from "../base/rpc.js";
import { html } from "../base/ui.js";

/** @typedef {{key: string, value: string, source: string, place: string, help: string}} Setting */

const EACH_MS = 600_000; // they are those of the server's start: a new server is a new connection
const settings = asked(
  () => (place.value.view === "machine" && place.value.query.show === "settings" && scope.value === "admin" ? "settings" : ""),
  async () => /** @type {{settings: Setting[]}} */ (await request("settings")).settings,
  EACH_MS,
);

export function SettingsView() {
  if (settings.value === null) return html`<p class="empty">Loading</p>`;
  const { q = "", all = "" } = place.value.query;
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = settings.value.found.filter((one) => {
    const text = `${one.key} ${one.value} ${one.help} ${one.place}`.toLowerCase();
    return words.length ? words.every((word) => text.includes(word)) : all || one.source !== "default";
  });
  return html`<form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <input id="filter" type="search" aria-label="Filter settings" placeholder="Filter by name, value, purpose" value=${q}
        onInput=${(/** @type {Event} */ event) => refine({ q: /** @type {HTMLInputElement} */ (event.target).value })} />
      <label class="only"><input type="checkbox" checked=${!!all} onChange=${() => refine({ all: all ? "" : "1" })} /> Defaults, too</label>
      <output aria-live="polite">${`${chosen.length} of ${settings.value.found.length}`}</output>
    </form>
    <table tabindex="0" aria-label="Settings in effect"><thead><tr><th>Setting</th><th>Value</th><th>From</th><th>What it is for</th></tr></thead>
      <tbody>${chosen.map((one) => html`<tr key=${one.key}><td><code>${one.key}</code></td><td><code>${one.value}</code></td><td>${one.source === "default" ? "default" : `${one.source}: ${one.place}`}</td><td>${one.help}</td></tr>`)}</tbody>
    </table>`;
}
