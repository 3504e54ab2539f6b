// @ts-check
// The list of processes, with its filter in the address.
import { place, refine } from "../base/address.js";
import { Controls, attempt } from "../base/controls.js";
import { Icon } from "../base/icons.js";
import { now } from "../base/now.js";
import { isListed, projects, shown, states } from "../base/processes.js";
import { request, scope } from "../base/rpc.js";
import { Rows } from "../base/rows.js";
import { html } from "../base/ui.js";
import { duration, lives, stateOf, timeOf, toneOf } from "../base/words.js";

/** @typedef {import("../base/words.js").Process} Process */

const ROW_PX = 52; // two lines of text, as style.css draws them

export function ListView() {
  const query = place.value.query;
  const found = shown(query);
  const folders = projects();
  return html`<section class="list" aria-label="Processes">
    <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <input id="filter" type="search" placeholder="Filter by name, command, folder, tag" aria-label="Filter" value=${query.q ?? ""}
        onInput=${(/** @type {Event} */ event) => refine({ q: /** @type {HTMLInputElement} */ (event.target).value })} />
      <${Choice} name="state" label="State" all="All states"
        options=${[["live", "Living"], ["ended", "Ended"], ...[...states()].map(([one, count]) => [one, `${one} (${count})`])]} />
      ${folders.length > 0 && html`<${Choice} name="project" label="Project" all="All projects" options=${folders.map((one) => [one, one])} />`}
      ${scope.value !== "read" && html`<button type="button" onClick=${() => void attempt(openTerminal)}>New terminal</button>`}
      <output aria-live="polite">${isListed.value ? `${found.length} shown` : "Loading"}</output>
    </form>
    <${Rows} count=${found.length} height=${ROW_PX} label="Processes, newest first" row=${(/** @type {number} */ index) => html`<${Row} key=${found[index]?.process_id} process=${found[index]} index=${index} />`} />
    ${isListed.value && found.length === 0 && html`<p class="empty">Nothing here. <code>outlive run -d -- PROGRAM</code> starts something.</p>`}
  </section>`;
}

async function openTerminal() {
  const made = await request("terminal_create");
  location.hash = `#/terminal/${made.process_id}`;
}

/** @param {{name: string, label: string, all: string, options: string[][]}} props */
function Choice({ name, label, all, options }) {
  const chosen = place.value.query[name] ?? "";
  const known = options.some(([value]) => value === chosen) || !chosen ? options : [[chosen, chosen], ...options];
  return html`<select aria-label=${label} value=${chosen} onChange=${(/** @type {Event} */ event) => refine({ [name]: /** @type {HTMLSelectElement} */ (event.target).value })}>
    <option value="">${all}</option>
    ${known.map(([value, text]) => html`<option value=${value} selected=${value === chosen}>${text}</option>`)}
  </select>`;
}

/** @param {{process: Process, index: number}} props */
function Row({ process, index }) {
  const name = process.name ?? process.short_id ?? process.process_id.slice(-6);
  const age = duration((now.value - Date.parse(process.created_at)) / 1000);
  return html`<div class="row" role="row" aria-rowindex=${index + 1}>
    <span class=${`state ${toneOf(process)}`} role="cell">${stateOf(process)}</span>
    <a class="what" role="cell" title=${process.command} href=${`#/log/${process.process_id}`}>
      <b>${name}</b> <code>${process.command}</code>
    </a>
    <span class="where" role="cell" title=${process.cwd}>${process.project ?? process.cwd}</span>
    <span class="time" role="cell" title=${`started ${process.created_at}`}>${timeOf(process, now.value)} <small>${age} ago</small></span>
    <span role="cell" class="acts">
      ${process.stdio === "pty" && lives(process) && html`<a href=${`#/terminal/${process.process_id}`} title="Terminal" aria-label=${`Terminal of ${name}`}><${Icon} name="terminal" /></a>`}
      <${Controls} process=${process} />
    </span>
  </div>`;
}
