// @ts-check
// The list of processes, with its filter and its order in the address.
import { place, refine } from "../base/address.js";
import { Controls, attempt } from "../base/controls.js";
import { Icon } from "../base/icons.js";
import { now } from "../base/now.js";
import { all, isListed, processOf, version } from "../base/processes.js";
import { request, scope } from "../base/rpc.js";
import { Rows } from "../base/rows.js";
import { html } from "../base/ui.js";
import { duration, lives, size, stateOf, timeOf, toneOf } from "../base/words.js";
import { Details, DetailsLink, Ports } from "./details_view.js";
import { FACETS, ORDERS, filtered, offered, titleOf } from "./list_model.js";
import { drawAnew, looks, memoryOf, usageOf } from "./usage.js";
import { shareText, sparkline } from "./usage_model.js";
import { leftBehind, treeOf } from "./tree_model.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {import("./list_model.js").Facet} Facet */

const INDENT_REM = 1.1; // of a level of the tree
const ROW_PX = 52; // two lines of text, as style.css draws them
/** @type {Record<Facet, [string, string]>} What a facet is called, and its first choice. */
const NAMES = {
  state: ["State", "All states"], project: ["Project", "All projects"], tag: ["Tag", "All tags"], host: ["Started by", "All hosts"], place: ["Place", "All places"], exit: ["Exit code", "All exit codes"],
};
/** @type {Record<string, string>} */
const WORDS = { live: "Living", ended: "Ended", failed: "not 0" };

const LEAST = { state: 0, project: 1, tag: 1, host: 2, place: 2, exit: 1 }; // values, below which a facet is left out

/** What was shown last: for the same processes and the same words it is not looked for again. */
let last = { mark: "", result: { ...filtered([], {}), tree: /** @type {import("./tree_model.js").TreeRow[] | null} */ (null) } };

/** @param {Record<string, string>} query The rows of the list, or of the tree where that is looked at. */
function shown(query) {
  const measured = query.sort === "memory" ? looks.value : 0;
  const mark = JSON.stringify([version.value, measured, query.q, query.sort, query.as, query.shut, ...FACETS.map((facet) => query[facet])]);
  if (mark !== last.mark) {
    const result = filtered(all(), query, memoryOf);
    last = { mark, result: { ...result, tree: query.as === "tree" ? treeOf(result.found, shutIn(query)) : null } };
  }
  return last.result;
}

/** @param {Record<string, string>} query @returns {Set<string>} The keys of what is folded in the tree. */
function shutIn({ shut = "" }) {
  return new Set(shut.split("|").filter(Boolean));
}

/** @param {string} key */
function fold(key) {
  const keys = shutIn(place.value.query);
  if (!keys.delete(key)) keys.add(key);
  refine({ shut: [...keys].join("|") });
}

export function ListView() {
  const query = place.value.query;
  drawAnew();
  const { found, counts, tree } = shown(query);
  return html`<section class="list" aria-label="Processes">
    <form class="filter" role="search" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <input id="filter" type="search" placeholder="Filter by name, command, folder, tag" aria-label="Filter" value=${query.q ?? ""}
        onInput=${(/** @type {Event} */ event) => refine({ q: /** @type {HTMLInputElement} */ (event.target).value })} />
      ${FACETS.map((facet) => html`<${Choice} key=${facet} facet=${facet} counts=${counts[facet]} />`)}
      <select aria-label="Order" onChange=${(/** @type {Event} */ event) => refine({ sort: /** @type {HTMLSelectElement} */ (event.target).value })}>
        ${Object.entries(ORDERS).map(([value, text]) => html`<option value=${value} selected=${value === (query.sort ?? "")}>${text}</option>`)}
      </select>
      <select aria-label="Shown as" onChange=${(/** @type {Event} */ event) => refine({ as: /** @type {HTMLSelectElement} */ (event.target).value })}>
        <option value="" selected=${!query.as}>As a list</option>
        <option value="tree" selected=${query.as === "tree"}>As a tree</option>
      </select>
      ${scope.value !== "read" && html`<button type="button" onClick=${() => void attempt(openTerminal)}>New terminal</button>`}
      <output aria-live="polite">${isListed.value ? `${found.length} shown` : "Loading"}</output>
    </form>
    <${Rows} count=${(tree ?? found).length} height=${ROW_PX} label=${`Processes, ${(ORDERS[query.sort ?? ""] ?? "").toLowerCase()}`} row=${(/** @type {number} */ index) => {
      const branch = tree?.[index];
      if (branch?.kind === "group") return html`<${GroupRow} key=${branch.key} group=${branch} index=${index} />`;
      const process = branch?.process ?? found[index];
      return html`<${Row} key=${process?.process_id} process=${process} index=${index} leaf=${branch} />`;
    }} />
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

/** A group of the tree: a project, or what asked for the starts in it. @param {{group: import("./tree_model.js").Group, index: number}} props */
function GroupRow({ group, index }) {
  const { key, depth, text, count, living, isShut } = group;
  return html`<div class="row group" role="row" aria-rowindex=${index + 1} aria-level=${depth + 1} style=${{ paddingLeft: `${0.75 + depth * INDENT_REM}rem` }}>
    <span role="cell"><${Fold} itsKey=${key} isShut=${isShut} name=${text} /> <b>${text}</b> <small>${count}${living > 0 && `, ${living} living`}</small></span>
  </div>`;
}

/** A link that folds what is below it, or unfolds it. @param {{itsKey: string, isShut: boolean, name: string}} props */
function Fold({ itsKey, isShut, name }) {
  const press = (/** @type {Event} */ event) => {
    event.preventDefault();
    fold(itsKey);
  };
  return html`<a class="fold" href="#/list" role="button" aria-expanded=${!isShut} aria-label=${`${isShut ? "Unfold" : "Fold"} ${name}`} onClick=${press}>${isShut ? "▸" : "▾"}</a>`;
}

const LINE = { width: 60, height: 16 }; // pixels

/** What a process uses: two lines of the last minutes, what they say now, and the ports on which it listens. @param {{process: Process}} props */
function Used({ process }) {
  void looks.value;
  const usage = lives(process) ? usageOf(process.process_id) : undefined;
  if (!usage) return null;
  const memory = size(usage.memory.at(-1) ?? 0);
  return html`<${Line} values=${usage.shares} most=${1} name="cpu" /><${Line} values=${usage.memory} name="memory" />
    <small>${shareText(usage.shares)} ${memory} <${Ports} process=${process} ports=${usage.ports} /></small>`;
}

/** @param {{values: number[], most?: number, name: string}} props */
function Line({ values, most, name }) {
  return html`<svg class=${`line-${name}`} viewBox=${`0 0 ${LINE.width} ${LINE.height}`} width=${LINE.width} height=${LINE.height} aria-hidden="true"><polyline points=${sparkline(values, { ...LINE, most })} fill="none" stroke="currentColor" /></svg>`;
}

/** @param {{process: Process, index: number, leaf?: import("./tree_model.js").Leaf}} props */
function Row({ process, index, leaf }) {
  const left = leftBehind(process, processOf);
  const name = titleOf(process);
  const age = duration((now.value - Date.parse(process.created_at)) / 1000);
  return html`<div class="row" role="row" aria-rowindex=${index + 1} aria-level=${leaf && leaf.depth + 1} style=${leaf && { paddingLeft: `${0.75 + leaf.depth * INDENT_REM}rem` }}>
    <span class=${`state ${toneOf(process)}`} role="cell">${stateOf(process)}${leaf && leaf.below > 0 && html`<${Fold} itsKey=${leaf.key} isShut=${leaf.isShut} name=${name} />`}${left && html`<small class="left">${left}</small>`}</span>
    <a class="what" role="cell" title=${process.command} href=${`#/log/${process.process_id}`}>
      <b>${name}</b> <code>${process.command}</code>
    </a>
    <span class="used" role="cell"><${Used} process=${process} /></span>
    <span class="where" role="cell" title=${process.cwd}>${leaf && process.started_by?.call ? `call ${process.started_by.call}` : (process.project ?? process.cwd)}</span>
    <span class="time" role="cell" title=${`started ${process.created_at}`}>${timeOf(process, now.value)} <small>${age} ago</small></span>
    <span role="cell" class="acts">
      ${process.stdio === "pty" && lives(process) && html`<a href=${`#/terminal/${process.process_id}`} title="Terminal" aria-label=${`Terminal of ${name}`}><${Icon} name="terminal" /></a>`}
      <${Controls} process=${process} /><${DetailsLink} process=${process} />
    </span>
  </div>`;
}
