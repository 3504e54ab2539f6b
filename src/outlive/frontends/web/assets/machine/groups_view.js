// @ts-check
// What lives by group or project: how much runs, what waits for its turn and in which order; and one click for all of it.
import { place, refine } from "../base/address.js";
import { attempt } from "../base/controls.js";
import { now } from "../base/now.js";
import { living, version } from "../base/processes.js";
import { request, scope } from "../base/rpc.js";
import { html, signal } from "../base/ui.js";
import { duration } from "../base/words.js";
import { asked } from "../base/asked.js";
import { actedOn, groupsOf, inTurns } from "./machine_model.js";

/** @typedef {import("./machine_model.js").Group} Group */
/** @typedef {import("./machine_model.js").Deed} Deed */

const SURE_MS = 4000; // so long a second click means yes
const EACH_MS = 5000; // other callers move what waits, too
const FAR = 1_000_000; // beyond every end
const AT_ONCE = 8; // requests on their way: each is answered when the tree has heard of it
const pressed = signal(""); // the deed and group that a second click does
const DEEDS = /** @type {[Deed, string][]} */ ([["PAUSE", "Pause all"], ["RESUME", "Resume all"], ["CANCEL", "Stop all"]]);

/** Do it to each of them, a few at a time; what has ended meanwhile needs it no more. @param {Group} group @param {Deed} deed */
async function toAll(group, deed) {
  const ids = actedOn(group, deed).map((one) => one.process_id);
  /** @type {unknown} */
  let wrong = null;
  const work = async () => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      await request("control", { process_id: id, type: deed }).catch((error) => {
        if (error.reason !== "process_ended" && error.reason !== "process_not_found") wrong ??= error;
      });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (wrong) throw wrong;
}

const moved = signal(0); // counts what this page has moved
/** The order of turns, which callers change. */
const lines = asked(
  () => {
    void version.value;
    if (place.value.view !== "machine" || place.value.query.show !== "groups") return "";
    return `${moved.value} ${living().filter((one) => one.state === "queued").length}`; // when a line changes, not at each event
  },
  async () => {
    const { groups } = await request("groups");
    return new Map(/** @type {{group: string, limit: number | null, waiting: string[]}[]} */ (groups).map((one) => [one.group, one]));
  },
  EACH_MS,
);

/** @param {string} id @param {number} places */
async function move(id, places) {
  await request("move", { process_id: id, places });
  moved.value += 1;
}

export function GroupsView() {
  void version.value;
  const by = place.value.query.by === "project" ? "project" : "group";
  const groups = groupsOf(living(), by);
  const known = lines.value?.found ?? new Map();
  if (by === "group") for (const one of groups) one.queued = inTurns(one.queued, known.get(one.name)?.waiting ?? []);
  return html`<div class="filter">
      <label>By <select aria-label="By" onChange=${(/** @type {Event} */ event) => refine({ by: /** @type {HTMLSelectElement} */ (event.target).value })}>
        <option value="group" selected=${by === "group"}>group</option><option value="project" selected=${by === "project"}>project</option>
      </select></label>
    </div>
    ${groups.length === 0 && html`<p class="empty">${by === "group" ? html`Nothing lives in a group: <code>outlive run --group NAME --group-limit 1 -- …</code> puts it in one.` : "Nothing lives in a project."}</p>`}
    ${groups.map((group) => html`<article class="card" key=${group.name} aria-label=${`${by} ${group.name}`}>
      <p><b>${group.name}</b> <span>${`${group.running.length} run, ${group.paused.length} paused, ${group.queued.length} wait`}${by === "group" && known.get(group.name)?.limit ? `, ${known.get(group.name).limit} at a time` : ""}</span></p>
      ${scope.value !== "read" && html`<p class="deeds">${DEEDS.map(([deed, text]) => html`<${DeedButton} key=${deed} group=${group} deed=${deed} text=${text} />`)}</p>`}
      ${group.queued.length > 0 && html`<ol aria-label="Waits, by its turn">${group.queued.map((one, turn) => html`<li key=${one.process_id}><a href=${`#/log/${one.process_id}`}>${one.name ?? one.short_id ?? one.process_id.slice(-6)}</a> <code>${one.command}</code>${" "}
        <small>${one.waits_for === "approval" ? "for an approval" : `for ${duration((now.value - Date.parse(one.created_at)) / 1000)}`}</small>
        ${by === "group" && known.get(group.name)?.limit && scope.value !== "read" && one.waits_for !== "approval" && html`<${Moves} process=${one} turn=${turn} count=${group.queued.length} />`}</li>`)}</ol>`}
    </article>`)}`;
}

/** @param {{process: import("../base/words.js").Process, turn: number, count: number}} props */
function Moves({ process, turn, count }) {
  const name = process.name ?? process.short_id ?? process.process_id.slice(-6);
  const by = (/** @type {number} */ places) => () => void attempt(() => move(process.process_id, places));
  return html`${turn > 0 && html`<button class="quiet" aria-label=${`Make ${name} the next`} title="Make it the next" onClick=${by(-FAR)}>⤒</button><button class="quiet" aria-label=${`Move ${name} forward`} title="Forward" onClick=${by(-1)}>↑</button>`}
    ${turn < count - 1 && html`<button class="quiet" aria-label=${`Move ${name} back`} title="Back" onClick=${by(1)}>↓</button>`}`;
}

/** @param {{group: Group, deed: Deed, text: string}} props A button that acts when it is pressed twice: it is about many. */
function DeedButton({ group, deed, text }) {
  const count = actedOn(group, deed).length;
  if (count === 0) return null;
  const mark = `${deed} ${group.name}`;
  const isPressed = pressed.value === mark;
  const press = () => {
    pressed.value = isPressed ? "" : mark;
    if (isPressed) void attempt(() => toAll(group, deed));
    else setTimeout(() => pressed.value === mark && (pressed.value = ""), SURE_MS);
  };
  return html`<button class=${isPressed ? "sure" : ""} aria-label=${`${isPressed ? "Really " : ""}${text} of ${group.name}`} onClick=${press}>${isPressed ? `${text}: ${count}?` : text}</button>`;
}
