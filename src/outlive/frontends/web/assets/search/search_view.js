// @ts-check
// Search in the output of all processes. What is looked for is in the address; matches come as they are found; nothing is asked for while
// the page is out of sight, stopped, or elsewhere.
import { place, refine } from "../base/address.js";
import { attempt } from "../base/controls.js";
import { projects } from "../base/processes.js";
import { link, request } from "../base/rpc.js";
import { inSight } from "../base/sight.js";
import { html, signal } from "../base/ui.js";
import { size } from "../base/words.js";
import { addressOf, pieces, plain, requestOf } from "./search.js";

/** @typedef {import("./search.js").Match} Match */

const MOST = 500; // matches in the document; "Go on" asks for as many more
const RETRY_MS = 300; // while the server is away

/** The search that is shown: `key` is what was looked for, `cursor` where it goes on, `room` how many more matches are taken. */
const search = signal({ key: "", matches: /** @type {Match[]} */ ([]), cursor: /** @type {string | null} */ (null), processes: 0, bytes: 0, left: 0, room: 0, is: /** @type {"" | "searching" | "stopped" | "full" | "over"} */ ("") });
let turn = 0; // counts searches: an answer to an earlier one is dropped

/** @param {Record<string, string>} query */
const keyOf = (query) => JSON.stringify(requestOf(query));

/** @param {number} ms */
const after = (ms) => new Promise((done) => setTimeout(done, ms));

function begin() {
  const key = keyOf(place.value.query);
  search.value = { key, matches: [], cursor: null, processes: 0, bytes: 0, left: 0, room: MOST, is: requestOf(place.value.query) ? "searching" : "" };
  void attempt(goOn);
}

function stop() {
  turn += 1;
  if (search.value.is === "searching") search.value = { ...search.value, is: "stopped" };
}

async function goOn() {
  const mine = ++turn;
  const wanted = requestOf(place.value.query);
  if (wanted === null) return;
  search.value = { ...search.value, is: "searching" };
  const isMine = () => mine === turn;
  const isHere = () => place.value.view === "search";
  while (isMine()) {
    await inSight();
    if (!isMine()) return;
    if (!isHere()) return stop();
    const { cursor, room } = search.value;
    /** @type {{matches: Match[], next: string | null, processes: number, searched_bytes: number, left_bytes: number}} */
    let found;
    try {
      found = await request("search", { ...wanted, cursor, limit: Math.min(Number(wanted.limit), room) });
    } catch (error) {
      // A server that was killed is back soon: the search goes on where it was.
      if (isMine() && (link.value !== "open" || !(/** @type {{hint?: string}} */ (error).hint))) {
        await after(RETRY_MS);
        continue;
      }
      stop();
      throw error;
    }
    if (!isMine()) return;
    const now = search.value;
    const left = room - found.matches.length;
    const is = found.next === null ? "over" : left > 0 ? "searching" : "full";
    search.value = {
      ...now, is, matches: [...now.matches, ...found.matches], cursor: found.next, room: left,
      processes: now.processes + found.processes, bytes: now.bytes + found.searched_bytes, left: found.left_bytes,
    };
    if (is !== "searching") return;
  }
}

function more() {
  search.value = { ...search.value, room: MOST };
  void attempt(goOn);
}

/** @param {SubmitEvent} event */
function submitted(event) {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ (/** @type {HTMLFormElement} */ (event.target).elements.namedItem("q"));
  refine({ q: field.value });
  begin();
}

/** @param {Record<string, string>} change */
function changed(change) {
  refine(change);
  begin();
}

export function SearchView() {
  const { query } = place.value;
  const { key, matches, is } = search.value;
  // An address that was opened, or gone back to, is searched for; what is shown already stays.
  if (key !== keyOf(query)) queueMicrotask(() => place.value.view === "search" && search.value.key !== keyOf(place.value.query) && begin());
  const folders = projects();
  return html`<section class="search" aria-label="Search in all output">
    <form class="filter" role="search" onSubmit=${submitted}>
      <input id="filter" name="q" type="search" placeholder="Search in all output" aria-label="Search in all output" value=${query.q ?? ""} autocomplete="off" />
      <${Switch} name="regex" label="Regular expression" />
      <${Switch} name="case" label="Match case" />
      ${folders.length > 0 && html`<select aria-label="Project" value=${query.project ?? ""} onChange=${(/** @type {Event} */ event) => changed({ project: /** @type {HTMLSelectElement} */ (event.target).value })}>
        <option value="">All projects</option>
        ${folders.map((one) => html`<option value=${one} selected=${one === query.project}>${one}</option>`)}
      </select>`}
      ${is === "searching" ? html`<button type="button" onClick=${stop}>Stop</button>` : html`<button>Search</button>`}
      <output aria-live="polite">${said()}</output>
    </form>
    <div class="hits" role="list" aria-label="Matches, newest process first" tabindex="0">
      ${matches.map((one) => html`<${Hit} key=${`${one.process_id} ${one.type} ${one.offset}`} match=${one} />`)}
      ${(is === "full" || is === "stopped") && html`<p class="empty"><button onClick=${more}>Go on</button></p>`}
      ${is === "over" && matches.length === 0 && html`<p class="empty">Nothing found.</p>`}
    </div>
  </section>`;
}

function said() {
  const { matches, processes, bytes, left, is } = search.value;
  if (is === "") return "";
  const what = { searching: "searching", stopped: "stopped", full: "there may be more", over: "everything was searched" }[is];
  return `${matches.length} found in ${processes} processes, ${size(bytes)} of ${size(bytes + left)} searched: ${what}`;
}

/** @param {{name: string, label: string}} props */
function Switch({ name, label }) {
  return html`<label class="switch"><input type="checkbox" checked=${place.value.query[name] === "1"}
    onChange=${(/** @type {Event} */ event) => changed({ [name]: /** @type {HTMLInputElement} */ (event.target).checked ? "1" : "" })} /> ${label}</label>`;
}

/** @param {{match: Match}} props */
function Hit({ match }) {
  const [before, hit, behind] = pieces(match).map(plain);
  const label = match.name ?? match.short_id ?? match.process_id.slice(-6);
  return html`<article class=${`hit ${match.type}`} role="listitem">
    <p><a href=${addressOf(match)}><b>${label}</b></a> <code>${match.command}</code></p>
    <a class="lines" href=${addressOf(match)}>
      ${match.before.map((one) => html`<span class="beside">${plain(one)}${"\n"}</span>`)}<span>${before}<mark>${hit}</mark>${behind}${"\n"}</span>${match.after.map((one) => html`<span class="beside">${plain(one)}${"\n"}</span>`)}
    </a>
  </article>`;
}
