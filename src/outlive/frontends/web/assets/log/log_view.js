// @ts-check
// One process's output: its beginning, its end, and everything between; what of it is chosen, found, saved and copied.
import { formatPlace, place, refine } from "../base/address.js";
import { Controls, attempt } from "../base/controls.js";
import { AuditEntries } from "../details/audit_entries.js";
import { processOf, version } from "../base/processes.js";
import { hasLastRun } from "../compare/last_run.js";
import { Rows } from "../base/rows.js";
import { html } from "../base/ui.js";
import { lives, size, stateOf, timeOf, toneOf } from "../base/words.js";
import { copy, save, saved, stopSaving, textBetween } from "./log_download.js";
import { clockOf, parseRange } from "./log_folds.js";
import { found, places, search, step, stopSearch } from "./log_search.js";
import { LINE_PX, fold, isFollowing, log, open, opened, scrollIn, scrolled, seen, showAt, showLine, toBeginning, toEnd } from "./log_window.js";

/** @typedef {import("./log_folds.js").Row} Row */

/** The range that is chosen: the address has it. */
const range = () => parseRange(place.value.query.lines);
const hasTimes = () => place.value.query.times === "1";

/** @param {Event} event @returns {string} */
const typed = (event) => /** @type {HTMLInputElement} */ (event.target).value;

/** Choose a line, or with `isLonger` everything up to it. @param {import("./log_model.js").Line} line @param {boolean} isLonger */
function choose(line, isLonger) {
  isFollowing.value = false;
  const had = range();
  const [from, to] = isLonger && had ? [Math.min(had.from, line.offset), Math.max(had.to, line.end)] : [line.offset, line.end];
  refine({ lines: !isLonger && had?.from === from && had.to === to ? "" : `${from}-${to}` });
}

/** @returns {string} The address of what is chosen, without where the page happens to be scrolled to. */
function link() {
  return location.href.split("#")[0] + formatPlace({ ...place.value, query: { lines: place.value.query.lines ?? "" } });
}

export function LogView() {
  void version.value;
  const { id } = place.value;
  if (log.value.id !== id) queueMicrotask(() => log.value.id !== place.value.id && open(place.value.id));
  const process = opened.value ?? processOf(id);
  const { rows } = log.value;
  const isBelow = process !== undefined && process !== null && lives(process);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    void attempt(event.key === "Home" ? toBeginning : toEnd);
  };
  return html`<section class="log" aria-label="Output">
    <div class="bar">
      ${process && html`<span class=${`state ${toneOf(process)}`}>${stateOf(process)}</span>
        <b>${process.name ?? process.short_id ?? id.slice(-6)}</b> <code class="command" title=${process.command}>${process.command}</code>
        <span class="time">${timeOf(process, Date.now())}</span>${process.stdio === "pty" && html`<a href=${`#/terminal/${id}`}>Terminal</a> <a href=${`#/playback/${id}`}>Play</a>`}${hasLastRun(process) && html`<a href=${`#/compare/${id}`}>Compare with the last run</a>`}<${Controls} process=${process} />`}
    </div>
    <${Places} isBelow=${isBelow} />
    <${Tools} id=${id} />
    <${Chosen} id=${id} />
    <${AuditEntries} />
    <div class="log-lines" onKeyDown=${keys}>
      <${Rows} count=${rows.length} height=${LINE_PX} label="Lines of output" onScrolled=${scrolled} onPlace=${scrollIn}
        row=${(/** @type {number} */ index) => html`<${LogLine} key=${index} row=${rows[index]} />`} />
    </div>
  </section>`;
}

/** Where to: beginning, end, a line, any place. @param {{isBelow: boolean}} props */
function Places({ isBelow }) {
  const { total } = log.value;
  return html`<div class="bar">
    <button onClick=${() => void attempt(toBeginning)}>Beginning</button>
    <button onClick=${() => void attempt(toEnd)} aria-pressed=${isFollowing.value}>${isBelow ? "Follow" : "End"}</button>
    <form onSubmit=${(/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("line"));
      if (field.value) void attempt(() => showLine(Number(field.value)));
    }}><input class="log-number" name="line" type="number" min="1" placeholder="Line" aria-label="Go to line" /></form>
    <input type="range" aria-label="Position in the output" min="0" max=${total} value=${seen.value} onChange=${(/** @type {Event} */ event) => void attempt(() => showAt(Number(typed(event))))} />
    <output>${size(seen.value)} of ${size(total)}</output>
  </div>`;
}

/** What else can be done with it. @param {{id: string}} props */
function Tools({ id }) {
  const text = place.value.query.find ?? "";
  const again = found.value.id === id && found.value.text === text && text !== "";
  return html`<div class="bar">
    <form class="log-find" role="search" onSubmit=${(/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("find"));
      void attempt(() => (again && field.value === text ? step(1) : search(field.value)));
    }}>
      <input name="find" type="search" placeholder="Search in this output" aria-label="Search in this output" value=${text} />
    </form>
    <button aria-label="Hit before" title="Hit before" disabled=${!again || found.value.index < 1} onClick=${() => void attempt(() => step(-1))}>↑</button>
    <button aria-label="Next hit" title="Next hit" disabled=${!again} onClick=${() => void attempt(() => step(1))}>↓</button>
    ${found.value.isBusy && html`<button onClick=${stopSearch}>Stop</button>`}
    <output aria-live="polite">${again ? places() : ""}</output>
    <span class="log-right">
      <button aria-pressed=${hasTimes()} onClick=${() => refine({ times: hasTimes() ? "" : "1" })}>Times</button>
      ${saved.value === null
        ? html`<button title="As it was written" onClick=${() => void attempt(() => save(id, "raw"))}>Download</button>
            <button title="Without colours and what was overwritten" onClick=${() => void attempt(() => save(id, "clean"))}>Clean text</button>`
        : html`<output>Saving, ${size(saved.value)}</output><button onClick=${stopSaving}>Stop saving</button>`}
    </span>
  </div>`;
}

/** What can be done with the lines that are chosen. @param {{id: string}} props */
function Chosen({ id }) {
  const chosen = range();
  if (!chosen) return null;
  return html`<div class="bar chosen"><span>${size(chosen.to - chosen.from)} chosen; shift-click another line's number for more</span>
    <button onClick=${() => void attempt(() => copy(link()))}>Copy link</button>
    <button onClick=${() => void attempt(async () => copy(await textBetween(id, chosen)))}>Copy text</button>
    <button class="quiet" onClick=${() => refine({ lines: "" })}>Choose none</button>
  </div>`;
}

/** @param {{row: Row}} props */
function LogLine({ row }) {
  const { line, number, fold: step, isInside } = row;
  const chosen = range();
  const isChosen = chosen !== null && line.offset < chosen.to && line.end > chosen.from;
  const address = formatPlace({ ...place.value, query: { lines: `${line.offset}-${line.end}` } });
  const take = (/** @type {MouseEvent} */ event) => {
    event.preventDefault();
    choose(line, event.shiftKey);
  };
  return html`<div class=${`line ${line.stream}${line.isGap ? " gap" : ""}${isChosen ? " is-chosen" : ""}${isInside ? " inside" : ""}`} role="row">
    <a class="line-number" role="rowheader" tabindex="-1" href=${address} aria-label=${`Line at byte ${line.offset}`} onClick=${take}>${number ?? "·"}</a>${
      hasTimes() && html`<time role="cell">${clockOf(line.time)}</time>`}<span role="cell">${
      step
        ? html`<button class="step" aria-expanded=${step.isOpen} onClick=${() => fold(line.offset, !step.isOpen)}>${step.isOpen ? "▾" : "▸"} ${step.title} <small>${step.count}</small></button>`
        : line.spans.map((one) => (one.classes ? html`<span class=${one.classes}>${one.text}</span>` : one.text))
    }</span></div>`;
}
