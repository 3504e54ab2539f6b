// @ts-check
// The timeline: a sentence about a day or an hour, what ended badly first, and a bar for each process. Each bar's row says in words what it shows.
import { place, refine } from "../base/address.js";
import { now } from "../base/now.js";
import { projects } from "../base/processes.js";
import { Rows } from "../base/rows.js";
import { html } from "../base/ui.js";
import { stateOf, toneOf } from "../base/words.js";
import { lived, shownSpan } from "./timeline.js";
import { beganAt, beside, clock, dayOf, endOf, endedAt, endedBy, needsLook, placed, ranFor, summary, ticksOf } from "./timeline_model.js";

/** @typedef {import("./timeline_model.js").Process} Process */
/** @typedef {import("./timeline_model.js").Span} Span */

const ROW_PX = 44; // two lines of text, as timeline.css draws them
const FIRST = 6; // of what ended badly: more than that is a list, which the filter shows
const MINUTE_MS = 60_000;

export function TimelineView() {
  const { query } = place.value;
  // Bars of what runs grow by the minute: drawing thousands of them each second would show nothing more.
  const time = Math.floor(now.value / MINUTE_MS) * MINUTE_MS + MINUTE_MS;
  const span = shownSpan();
  const chosen = lived.value.processes.filter((one) => !query.where || (one.location?.backend ?? "here") === query.where);
  const bad = chosen.filter(needsLook);
  // What waits or was left behind first: that can still be helped. Then the newest.
  const isOpen = (/** @type {Process} */ one) => endOf(one) === "no" || one.descendants > 0;
  const looks = [...bad.filter(isOpen).reverse(), ...bad.filter((one) => !isOpen(one)).reverse()].slice(0, FIRST);
  const shown = query.only === "bad" ? bad : chosen;
  return html`<section class="timeline" aria-label="Timeline">
    <${Choices} span=${span} />
    <p class="summary" role="status">${lived.value.isWhole || chosen.length ? summary(chosen, span) : "Loading"}</p>
    ${bad.length > 0 && html`<ul class="looks" aria-label="To look at first">
      ${looks.map((one) => html`<li key=${one.process_id}><a href=${`#/log/${one.process_id}`}>${nameOf(one)}</a> <span class=${toneOf(one)}>${endedBy(one)}</span>, ${clock(endedAt(one, time))} after ${ranFor(one, time)}${one.descendants > 0 && `, ${one.descendants} left running`}</li>`)}
      ${bad.length > FIRST && html`<li><button class="quiet" onClick=${() => refine({ only: "bad" })}>${`and ${bad.length - FIRST} more`}</button></li>`}
    </ul>`}
    ${lived.value.away.map((one) => html`<p class="away">${awayText(one)}</p>`)}
    <${Axis} span=${span} />
    <${Rows} count=${shown.length} height=${ROW_PX} label="What ran, by its start"
      row=${(/** @type {number} */ index) => html`<${Bar} key=${shown[index]?.process_id} process=${shown[index]} index=${index} span=${span} time=${time} />`} />
  </section>`;
}

/** @param {Process} one */
const nameOf = (one) => one.name ?? one.short_id ?? one.process_id.slice(-6);

/** @param {import("./timeline.js").Outage} one */
function awayText({ from, to, exact }) {
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  const on = dayOf(begin) === dayOf(end) ? "" : `${dayOf(begin)} `;
  return exact ? `No server ran from ${on}${clock(begin)} to ${clock(end)}.` : `A server was killed after ${on}${clock(begin)}; the next ran from ${clock(end)} on.`;
}

/** @param {{span: Span}} props */
function Choices({ span }) {
  const { query } = place.value;
  const known = [...new Set([...projects(), ...(query.project ? [query.project] : [])])].sort();
  const places = [...new Set(["here", ...lived.value.processes.map((one) => one.location?.backend ?? "here"), ...(query.where ? [query.where] : [])])];
  const change = (/** @type {string} */ name) => (/** @type {Event} */ event) => refine({ [name]: /** @type {HTMLInputElement} */ (event.target).value });
  const hours = Array.from({ length: 24 }, (_, hour) => hour);
  return html`<form class="filter" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <button type="button" onClick=${() => refine(beside(span, -1))} aria-label=${span.hour === null ? "The day before" : "The hour before"}>‹</button>
    <input type="date" aria-label="Day" value=${span.day} max=${dayOf(Date.now())} onChange=${change("day")} />
    <select aria-label="Hour" value=${span.hour ?? ""} onChange=${change("hour")}>
      <option value="" selected=${span.hour === null}>Whole day</option>
      ${hours.map((hour) => html`<option value=${hour} selected=${hour === span.hour}>${`${String(hour).padStart(2, "0")}:00`}</option>`)}
    </select>
    <button type="button" onClick=${() => refine(beside(span, 1))} aria-label=${span.hour === null ? "The day after" : "The hour after"}>›</button>
    <button type="button" onClick=${() => refine({ day: "", hour: "" })}>Today</button>
    ${known.length > 0 && html`<select aria-label="Project" value=${query.project ?? ""} onChange=${change("project")}>
      <option value="">All projects</option>
      ${known.map((one) => html`<option value=${one} selected=${one === query.project}>${one}</option>`)}
    </select>`}
    ${places.length > 1 && html`<select aria-label="Where it ran" value=${query.where ?? ""} onChange=${change("where")}>
      <option value="">Everywhere</option>
      ${places.map((one) => html`<option value=${one} selected=${one === query.where}>${one === "here" ? "This machine" : one}</option>`)}
    </select>`}
    <label class="only"><input type="checkbox" checked=${query.only === "bad"} onChange=${() => refine({ only: query.only === "bad" ? "" : "bad" })} /> Only what to look at</label>
  </form>`;
}

/** @param {{span: Span}} props The hours, each a way into it. */
function Axis({ span }) {
  const marks = ticksOf(span).map(({ at, text, hour }) => {
    const style = { left: `${placed(span, at, at).left}%` };
    return hour === null
      ? html`<span style=${style}>${text}</span>`
      : html`<a href="#" aria-label=${`Show the hour from ${text}`} style=${style} onClick=${(/** @type {Event} */ event) => {
          event.preventDefault();
          refine({ day: span.day, hour: String(hour) });
        }}>${text}</a>`;
  });
  return html`<div class="axis"><span class="track">${marks}</span></div>`;
}

/** @param {{process: Process, index: number, span: Span, time: number}} props */
function Bar({ process, index, span, time }) {
  const [begin, end] = [beganAt(process), endedAt(process, time)];
  const { left, width } = placed(span, begin, end);
  const words = `${clock(begin)}, ${ranFor(process, time)}, ${endedBy(process)}`;
  return html`<a class="bar-row" role="row" aria-rowindex=${index + 1} href=${`#/log/${process.process_id}`} title=${`${process.command}\n${words}`}>
    <span role="cell" class="who"><b>${nameOf(process)}</b> <span class=${`state ${toneOf(process)}`}>${stateOf(process)}</span><small>${words}</small></span>
    <span role="cell" class="track" aria-hidden="true">
      ${lived.value.away.map((one) => {
        const gap = placed(span, Date.parse(one.from), Date.parse(one.to));
        return gap.width > 0 && html`<span class="gap" style=${{ left: `${gap.left}%`, width: `${gap.width}%` }}></span>`;
      })}
      <span class=${`bar-span ${toneOf(process)}`} style=${{ left: `${left}%`, width: `${width}%` }}></span>
    </span>
  </a>`;
}
