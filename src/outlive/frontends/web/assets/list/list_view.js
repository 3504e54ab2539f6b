// @ts-check
// The list of processes, with its filter and its order in the address.
import { place, refine } from "../base/address.js";
import { Controls, attempt } from "../base/controls.js";
import { Icon } from "../base/icons.js";
import { now } from "../base/now.js";
import { all, isListed, version } from "../base/processes.js";
import { request, scope } from "../base/rpc.js";
import { Rows } from "../base/rows.js";
import { html } from "../base/ui.js";
import { duration, lives, stateOf, timeOf, toneOf } from "../base/words.js";
import { Details, DetailsLink } from "./details_view.js";
import { FACETS, ORDERS, filtered, offered, titleOf } from "./list_model.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {import("./list_model.js").Facet} Facet */

const ROW_PX = 52; // two lines of text, as style.css draws them
/** @type {Record<Facet, [string, string]>} What a facet is called, and its first choice. */
const NAMES = {
  state: ["State", "All states"], project: ["Project", "All projects"], tag: ["Tag", "All tags"], place: ["Place", "All places"], exit: ["Exit code", "All exit codes"],
};
/** @type {Record<string, string>} */
const WORDS = { live: "Living", ended: "Ended", failed: "not 0" };

const LEAST = { state: 0, project: 1, tag: 1, place: 2, exit: 1 }; // values, below which a facet is left out

/** What was shown last: for the same processes and the same words it is not looked for again. */
let last = { mark: "", result: filtered([], {}) };

/** @param {Record<string, string>} query */
function shown(query) {
  const mark = JSON.stringify([version.value, query.q, query.sort, ...FACETS.map((facet) => query[facet])]);
  if (mark !== last.mark) last = { mark, result: filtered(all(), query) };
  return last.result;
}

export function ListView() {
  const query = place.value.query;
  const { found, counts } = shown(query);
  return html`<section class="list" aria-label="Processes">
    <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <input id="filter" type="search" placeholder="Filter by name, command, folder, tag" aria-label="Filter" value=${query.q ?? ""}
        onInput=${(/** @type {Event} */ event) => refine({ q: /** @type {HTMLInputElement} */ (event.target).value })} />
      ${FACETS.map((facet) => html`<${Choice} key=${facet} facet=${facet} counts=${counts[facet]} />`)}
      <select aria-label="Order" onChange=${(/** @type {Event} */ event) => refine({ sort: /** @type {HTMLSelectElement} */ (event.target).value })}>
        ${Object.entries(ORDERS).map(([value, text]) => html`<option value=${value} selected=${value === (query.sort ?? "")}>${text}</option>`)}
      </select>
      ${scope.value !== "read" && html`<button type="button" onClick=${() => void attempt(openTerminal)}>New terminal</button>`}
      <output aria-live="polite">${isListed.value ? `${found.length} shown` : "Loading"}</output>
    </form>
    <${Rows} count=${found.length} height=${ROW_PX} label=${`Processes, ${(ORDERS[query.sort ?? ""] ?? "").toLowerCase()}`} row=${(/** @type {number} */ index) => html`<${Row} key=${found[index]?.process_id} process=${found[index]} index=${index} />`} />
    <${Details} />
    ${isListed.value && found.length === 0 && html`<p class="empty">Nothing here. <code>outlive run -d -- PROGRAM</code> starts something.</p>`}
  </section>`;
}

async function openTerminal() {
  const made = await request("terminal_create");
  location.hash = `#/terminal/${made.process_id}`;
}

/** One facet. @param {{facet: Facet, counts: Map<string, number>}} props */
function Choice({ facet, counts }) {
  const chosen = place.value.query[facet] ?? "";
  const [label, all] = NAMES[facet];
  const options = offered(counts, chosen);
  if (!chosen && options.length < LEAST[facet]) return null;
  return html`<select aria-label=${label} onChange=${(/** @type {Event} */ event) => refine({ [facet]: /** @type {HTMLSelectElement} */ (event.target).value })}>
    <option value="" selected=${!chosen}>${all}</option>
    ${options.map(([value, count]) => html`<option key=${value} value=${value} selected=${value === chosen}>${WORDS[value] ?? value} (${count})</option>`)}
  </select>`;
}

/** @param {{process: Process, index: number}} props */
function Row({ process, index }) {
  const name = titleOf(process);
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
      <${Controls} process=${process} /><${DetailsLink} process=${process} />
    </span>
  </div>`;
}
