// @ts-check
// What the search's view decides without a browser: from the address to a request, and from a match to what is drawn of it. Pure.

/** @typedef {{process_id: string, name: string | null, short_id: string | null, project: string | null, command: string, type: "stdout" | "stderr",
 *   offset: number, end: number, hit: number, hit_end: number, at: number, line: string, line_from: number, before: string[], after: string[]}} Match */

const AROUND = 2; // lines before and behind a match
const AT_ONCE = 100; // matches in one answer
const FAR = 4096; // bytes: a match that lies so far behind its line's beginning is led to itself

/**
 * @param {Record<string, string>} query Of the address.
 * @returns {Record<string, unknown> | null} What is asked for; null while there is no text.
 */
export function requestOf(query) {
  if (!query.q) return null;
  return {
    text: query.q,
    regex: query.regex === "1",
    ignore_case: query.case !== "1",
    project: query.project || null,
    context: AROUND,
    limit: AT_ONCE,
  };
}

/**
 * @param {Match} match
 * @returns {string} Where it is: the log, at the line's first byte.
 */
export function addressOf({ process_id, at, hit, offset }) {
  const back = hit - offset;
  return `#/log/${process_id}?at=${back < FAR ? Math.max(0, at - back) : at}`;
}

/**
 * Return a line in three pieces: before the match, the match, and behind it. Offsets count bytes.
 * @param {Match} match
 * @returns {[string, string, string]}
 */
export function pieces({ line, line_from, hit, hit_end }) {
  const bytes = new TextEncoder().encode(line);
  const decoder = new TextDecoder();
  const [from, to] = [Math.max(0, hit - line_from), Math.max(0, hit_end - line_from)];
  return [decoder.decode(bytes.slice(0, from)), decoder.decode(bytes.slice(from, to)), decoder.decode(bytes.slice(to))];
}

// Sequences that a terminal obeys (ECMA-48): colours and titles are not drawn here.
// eslint-disable-next-line no-control-regex
const SIGNS = /\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f]/g;

/** @param {string} text @returns {string} It, without what only a terminal understands. */
export function plain(text) {
  return text.replace(SIGNS, "");
}
