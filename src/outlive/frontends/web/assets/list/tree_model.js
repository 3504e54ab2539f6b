// @ts-check
// Who started what: processes below their projects, below what asked for them, below the process from whose tree they were started. Pure.
import { lives } from "../base/words.js";
import { hostOf, titleOf } from "./list_model.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {{kind: "group", key: string, depth: number, text: string, count: number, living: number, isShut: boolean}} Group */
/** @typedef {{kind: "process", key: string, depth: number, process: Process, below: number, isShut: boolean}} Leaf `below`: how many it has started. */
/** @typedef {Group | Leaf} TreeRow */

const DEEPEST = 40; // a chain of starts that is longer is drawn no further in

/**
 * Return the rows of a tree: what a filter has left, in its order within each group, and groups by the first process that they have.
 * @param {Process[]} found
 * @param {ReadonlySet<string>} shut The keys of what is folded.
 * @returns {TreeRow[]}
 */
export function treeOf(found, shut) {
  const ids = new Set(found.map((one) => one.process_id));
  /** @type {Map<string, Process[]>} By the process that started them. */
  const children = new Map();
  /** @type {Map<string, Map<string, Process[]>>} By project, and there by what asked. */
  const projects = new Map();
  for (const one of found) {
    const parent = one.started_by?.parent ?? "";
    if (parent !== one.process_id && ids.has(parent)) {
      put(children, parent, one);
      continue;
    }
    const project = one.project ?? "";
    const askers = projects.get(project) ?? new Map();
    projects.set(project, askers);
    put(askers, askerOf(one), one);
  }
  /** @type {TreeRow[]} */
  const rows = [];
  const draw = (/** @type {Process} */ process, /** @type {number} */ depth) => {
    const below = children.get(process.process_id) ?? [];
    const isShut = shut.has(process.process_id);
    rows.push({ kind: "process", key: process.process_id, depth: Math.min(depth, DEEPEST), process, below: below.length, isShut });
    if (!isShut) for (const one of below) draw(one, depth + 1);
  };
  for (const [project, askers] of projects) {
    const key = `p:${project}`;
    const all = [...askers.values()].flat();
    if (!group(rows, shut, { key, depth: 0, text: project || "No project", members: all })) continue;
    for (const [asker, members] of askers) {
      if (!group(rows, shut, { key: `${key}:${asker}`, depth: 1, text: askerText(members), members })) continue;
      for (const one of members) draw(one, 2);
    }
  }
  return rows;
}

/** @param {Map<string, Process[]>} map @param {string} key @param {Process} one */
function put(map, key, one) {
  const list = map.get(key);
  if (list) list.push(one);
  else map.set(key, [one]);
}

/**
 * Add the row of a group, and say whether what is in it is drawn.
 * @param {TreeRow[]} rows @param {ReadonlySet<string>} shut
 * @param {{key: string, depth: number, text: string, members: Process[]}} group
 */
function group(rows, shut, { key, depth, text, members }) {
  const isShut = shut.has(key);
  rows.push({ kind: "group", key, depth, text, count: members.length, living: members.filter(lives).length, isShut });
  return !isShut;
}

/** @param {Process} one @returns {string} An MCP client by its session, which is a thread of its host; others by their door. */
function askerOf({ started_by, session_id }) {
  return started_by?.door === "mcp" ? `mcp:${started_by.host ?? ""}:${session_id ?? ""}` : (started_by?.door ?? "");
}

/** @param {Process[]} members @returns {string} */
function askerText([one]) {
  return one ? startedBy(one) : "";
}

/** @param {Process} one @returns {string} What asked for its start: "claude-code · session 5b0c1d2e". */
export function startedBy(one) {
  const { door = "" } = one.started_by ?? {};
  const session = door === "mcp" && one.session_id ? ` · session ${one.session_id.replace("mcp-", "").slice(0, 8)}` : "";
  return `${hostOf(one)}${session}`;
}

/**
 * Return why a process is left behind, in a few words; "" for one that is not.
 * @param {Process} one
 * @param {(id: string) => Process | undefined} processOf What is known of another one.
 */
export function leftBehind(one, processOf) {
  const hasEnded = one.ended_at !== null;
  if (hasEnded && one.descendants > 0) return `left ${one.descendants} running`;
  const id = one.started_by?.parent;
  if (!hasEnded && lives(one) && one.session_over) return "left behind by its session";
  if (hasEnded || !id || !lives(one)) return "";
  const parent = processOf(id);
  if (parent && parent.ended_at === null) return "";
  return parent ? `left behind by ${titleOf(parent)}` : "left behind";
}
