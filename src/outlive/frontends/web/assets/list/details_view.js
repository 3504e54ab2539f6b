// @ts-check
// One process of the list more closely: what it is, and what else can be done to it: a signal, the same again, another name, other tags.
import { formatPlace, place, refine } from "../base/address.js";
import { attempt } from "../base/controls.js";
import { learn, processOf } from "../base/processes.js";
import { hasLastRun } from "../compare/last_run.js";
import { request, scope } from "../base/rpc.js";
import { html, useState } from "../base/ui.js";
import { duration, lives, quoted, size, stateOf } from "../base/words.js";
import { tagChanges, tagText, titleOf } from "./list_model.js";
import { startedBy } from "./tree_model.js";
import { looks, usageOf } from "./usage.js";
import { shareText } from "./usage_model.js";

/** @typedef {import("../base/words.js").Process} Process */

const SIGNALS = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "STOP", "KILL"];

/** @param {string} id @returns {string} The address of the same list with this process beside it, or with none. */
const addressOf = (id) => formatPlace({ ...place.value, view: "list", id: "", query: { ...place.value.query, sel: id } });

/** @param {{process: Process}} props A link that shows it, or closes it again. */
export function DetailsLink({ process }) {
  const isShown = place.value.query.sel === process.process_id;
  return html`<a aria-expanded=${isShown} aria-label=${`Details of ${titleOf(process)}`} title="Details"
    href=${addressOf(isShown ? "" : process.process_id)}>⋯</a>`;
}

export function Details() {
  const id = place.value.query.sel;
  const process = id ? processOf(id) : undefined;
  if (!process) return null;
  return html`<section class="details" aria-label=${`Details of ${titleOf(process)}`} key=${process.process_id}>
    <div class="bar">
      <b>${titleOf(process)}</b> <span>${stateOf(process)}</span>
      <a href=${`#/log/${process.process_id}`}>Output</a>
      ${hasLastRun(process) && html`<a href=${`#/compare/${process.process_id}`}>Compare with the last run</a>`}
      <a href=${addressOf("")}>Close</a>
    </div>
    <dl>${factsOf(process).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    ${scope.value !== "read" && html`<${Deeds} process=${process} />`}
  </section>`;
}

/** Ports as links, where they are this machine's. @param {{process: Process, ports: number[]}} props */
export function Ports({ process, ports }) {
  if (process.location) return html`${ports.map((port) => `:${port} `)}`;
  return html`${ports.map((port) => html`<a key=${port} href=${`http://${location.hostname}:${port}`} target="_blank" rel="noopener noreferrer">:${port}</a> `)}`;
}

/** @param {Process} one @returns {[string, unknown][]} */
function factsOf(one) {
  /** @type {[string, unknown][]} */
  const facts = [
    ["Command", html`<code>${quoted([one.command]).slice(1, -1)}</code>`],
    ["Folder", one.cwd],
    ["Id", html`<code>${one.process_id}</code>`],
    ["Output", size(one.stdout_bytes + one.stderr_bytes)],
  ];
  const { parent, call } = one.started_by ?? {};
  const starter = parent ? processOf(parent) : undefined;
  facts.push(["Started by", html`${startedBy(one)}${call && ` · call ${call}`}${parent && html` · from <a href=${addressOf(parent)}>${starter ? titleOf(starter) : parent}</a>`}`]);
  if (one.pid !== null) facts.push(["Pid", one.pid]);
  void looks.value;
  const usage = lives(one) ? usageOf(one.process_id) : undefined;
  if (usage) facts.push(["Memory", size(usage.memory.at(-1) ?? 0)], ["Processor", `${shareText(usage.shares)} now, ${duration(usage.cpu)} in all`]);
  if (usage?.ports.length) facts.push(["Ports", html`<${Ports} process=${one} ports=${usage.ports} />`]);
  if (one.group) facts.push(["Group", one.group]);
  if (one.error) facts.push(["Error", one.error]);
  return facts;
}

/** What can be done to it. @param {{process: Process}} props */
function Deeds({ process }) {
  const id = process.process_id;
  const [chosen, setChosen] = useState("INT");
  const [isTree, setTree] = useState(false);
  const change = async (/** @type {Record<string, unknown>} */ members) => learn(await request("relabel", { process_id: id, ...members }));
  return html`<div class="deeds">
    ${lives(process) && process.state !== "queued" && html`<form onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      void attempt(() => request("signal", { process_id: id, signal: chosen, whole_tree: isTree }));
    }}>
      <select aria-label="Signal" onChange=${(/** @type {Event} */ event) => setChosen(/** @type {HTMLSelectElement} */ (event.target).value)}>
        ${SIGNALS.map((one) => html`<option selected=${one === chosen}>${one}</option>`)}
      </select>
      <label><input type="checkbox" checked=${isTree} onChange=${() => setTree(!isTree)} /> whole tree</label>
      <button>Send signal</button>
    </form>`}
    <button onClick=${() => void attempt(() => runAgain(id))}>Run again</button>
    <${Edited} label="Name" value=${process.name ?? ""} save=${(/** @type {string} */ text) => change({ name: text.trim() || null })} />
    <${Edited} label="Tags" value=${tagText(process.tags)} save=${(/** @type {string} */ text) => change({ tags: tagChanges(process.tags, text) })} />
  </div>`;
}

/** @param {string} id */
async function runAgain(id) {
  const { process_id } = await request("rerun", { process_id: id });
  refine({ sel: process_id });
}

/** A text that is changed in its place. @param {{label: string, value: string, save: (text: string) => Promise<unknown>}} props */
function Edited({ label, value, save }) {
  const [text, setText] = useState(/** @type {string | null} */ (null));
  return html`<form onSubmit=${(/** @type {Event} */ event) => {
    event.preventDefault();
    void attempt(async () => {
      await save(text ?? value);
      setText(null);
    });
  }}>
    <label>${label} <input value=${text ?? value} spellcheck=${false} autocomplete="off" onInput=${(/** @type {Event} */ event) => setText(/** @type {HTMLInputElement} */ (event.target).value)} /></label>
    ${text !== null && text !== value && html`<button>Save</button> <button type="button" class="quiet" onClick=${() => setText(null)}>Leave it</button>`}
  </form>`;
}
