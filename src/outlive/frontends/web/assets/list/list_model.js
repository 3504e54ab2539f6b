// @ts-check
// Which processes the list shows, in which order, and how many there are of each kind. Pure.
import { lives, stateOf } from "../base/words.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {"state" | "project" | "tag" | "host" | "place" | "exit"} Facet */
/** @typedef {{q?: string, sort?: string} & Partial<Record<Facet, string>>} Filter */
/** @typedef {Record<Facet, Map<string, number>>} Counts How many there are of each value, if the other conditions stay as they are. */

export const FACETS = /** @type {const} */ (["state", "project", "tag", "host", "place", "exit"]);
export const HERE = "this machine";

/** @type {WeakMap<Process, string>} What a filter's words are looked for in; a process that changes is another object. */
const texts = new WeakMap();

/** @param {Process} one */
function textOf(one) {
  let text = texts.get(one);
  if (text === undefined) {
    text = [one.name, one.short_id, one.process_id, one.command, one.cwd, one.group, one.pid, ...tagsOf(one)].join(" ").toLowerCase();
    texts.set(one, text);
  }
  return text;
}

/** @param {Process} one */
const tagsOf = (one) => Object.entries(one.tags).map(([name, value]) => `${name}=${value}`);

/** @type {Record<string, string>} What a door is called: `started_by.door` has its short name. */
const DOORS = {
  mcp: "MCP client", jsonrpc: "Command line and programs", rest: "REST", bridge: "VS Code", terminal: "Terminal", services: "Services", "": "Not known",
};

/** @param {Process} one @returns {string} What asked for its start: the name of an MCP client, else the door. */
export function hostOf({ started_by: { door = "", host = "" } = {} }) {
  return host || (DOORS[door] ?? door);
}

/** @type {Record<Facet, (one: Process) => string[]>} The values that a process has of each facet. */
const VALUES = {
  state: (one) => [lives(one) ? "live" : "ended", stateOf(one)],
  project: (one) => (one.project ? [one.project] : []),
  tag: tagsOf,
  host: (one) => [hostOf(one)],
  place: (one) => [one.location?.backend ?? HERE],
  exit: (one) => (one.exit_code === null ? [] : one.exit_code === 0 ? ["0"] : ["failed", String(one.exit_code)]),
};

/**
 * Return the processes that a filter leaves, in its order, and the counts of its facets.
 * @param {Iterable<Process>} processes
 * @param {Filter} filter `q`: words that all have to be in a process's names, command, folder or tags.
 * @param {(one: Process) => number} [memoryOf] Bytes, for the order of that name.
 * @returns {{found: Process[], counts: Counts}}
 */
export function filtered(processes, filter, memoryOf = () => 0) {
  const words = (filter.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = FACETS.filter((facet) => filter[facet]);
  const counts = /** @type {Counts} */ (Object.fromEntries(FACETS.map((facet) => [facet, new Map()])));
  const found = [];
  for (const one of processes) {
    if (words.length && !words.every((word) => textOf(one).includes(word))) continue;
    const failing = chosen.filter((facet) => !VALUES[facet](one).includes(filter[facet] ?? ""));
    if (failing.length === 0) found.push(one);
    // What one condition alone leaves out is counted there: as many would come if that were chosen instead.
    const [only] = failing;
    const counted = failing.length === 0 ? FACETS : failing.length === 1 && only ? [only] : [];
    for (const facet of counted) for (const value of VALUES[facet](one)) counts[facet].set(value, (counts[facet].get(value) ?? 0) + 1);
  }
  return { found: sorted(found, filter.sort ?? "", memoryOf), counts };
}

/** @type {Record<string, string>} The orders, by their words in the address. */
export const ORDERS = { "": "Newest first", oldest: "Oldest first", longest: "Longest first", name: "By name", state: "By state", memory: "By memory" };
const collator = new Intl.Collator("en", { numeric: true });

/** @param {Process[]} found @param {string} order @param {(one: Process) => number} memoryOf @returns {Process[]} The same array. */
function sorted(found, order, memoryOf) {
  // Ids grow with time.
  const newest = (/** @type {Process} */ a, /** @type {Process} */ b) => (a.process_id < b.process_id ? 1 : -1);
  /** @param {(one: Process) => number} of The largest first. */
  const by = (of) => {
    const values = new Map(found.map((one) => [one, of(one)]));
    return found.sort((a, b) => (values.get(b) ?? 0) - (values.get(a) ?? 0) || newest(a, b));
  };
  if (order === "oldest") return found.sort((a, b) => -newest(a, b));
  if (order === "longest") return by(lasted);
  if (order === "memory") return by(memoryOf);
  if (order === "name" || order === "state") {
    const of = order === "name" ? titleOf : stateOf;
    return found.sort((a, b) => collator.compare(of(a), of(b)) || newest(a, b));
  }
  return found.sort(newest);
}

/** @param {Process} one @returns {number} Milliseconds; what never began has none. */
function lasted(one) {
  if (one.started_at === null) return -1;
  return (one.ended_at === null ? Date.now() : Date.parse(one.ended_at)) - Date.parse(one.started_at);
}

/** @param {Process} one @returns {string} What a row calls it. */
export function titleOf(one) {
  return one.name ?? one.short_id ?? one.process_id.slice(-6);
}

const MOST_VALUES = 200; // of one facet: a tag may have another value for each process

/**
 * Return the values that a facet offers, the most frequent first, and the chosen one in any case.
 * @param {Map<string, number>} counts
 * @param {string} chosen
 * @returns {[string, number][]}
 */
export function offered(counts, chosen) {
  const most = [...counts].sort((a, b) => b[1] - a[1] || collator.compare(a[0], b[0])).slice(0, MOST_VALUES);
  return !chosen || most.some(([value]) => value === chosen) ? most : [[chosen, counts.get(chosen) ?? 0], ...most];
}

/** @param {Record<string, string>} tags @returns {string} As they are typed: "job=build, draft". */
export function tagText(tags) {
  return Object.entries(tags).map(([name, value]) => (value ? `${name}=${value}` : name)).join(", ");
}

/**
 * Return what makes other tags of them, as `relabel` takes it: a value that is new, null for what is there no more.
 * @param {Record<string, string>} tags
 * @param {string} text Names and values, with commas between them.
 * @returns {Record<string, string | null>}
 */
export function tagChanges(tags, text) {
  /** @type {Record<string, string | null>} */
  const changes = Object.fromEntries(Object.keys(tags).map((name) => [name, null]));
  for (const part of text.split(",").map((one) => one.trim()).filter(Boolean)) {
    const [name = "", ...value] = part.split("=");
    changes[name.trim()] = value.join("=").trim();
  }
  return changes;
}
