// @ts-check
// Which lines are rows: steps that a program has marked (GitHub Actions' `::group::`, `##[group]`) are folded once they are over. Pure.
import { textOf } from "./log_model.js";

/** @typedef {import("./log_model.js").Line} Line */
/** @typedef {{line: Line, number: number | null, fold: {title: string, count: number, isOpen: boolean} | null, isInside: boolean}} Row One row of the
 *   view: a line, or with `fold` the head of a step. `number` is the line's, where it is known. */

// Runners write a time before each line (docs.github.com, "Workflow commands": group and endgroup).
const BEGIN = /^(?:\d{4}-\d\d-\d\dT\S+Z )?(?:##\[group\]|::group::)(.*)$/;
const END = /^(?:\d{4}-\d\d-\d\dT\S+Z )?(?:##\[endgroup\]|::endgroup::)/;

/**
 * Return the rows of lines.
 * @param {Line[]} lines
 * @param {{first: number | null, chosen: ReadonlyMap<number, boolean>}} how `first`: the first line's number, where it is known. `chosen`: which
 *   steps, by their line's offset, were opened (true) or closed by hand. Others are closed when they are over, and open while they run.
 * @returns {Row[]}
 */
export function rowsOf(lines, { first, chosen }) {
  const ends = endsOf(lines);
  /** @type {Row[]} */
  const rows = [];
  let number = first;
  let until = -1; // up to this line a step lasts
  let isOpen = true;
  for (const [index, line] of lines.entries()) {
    const own = number;
    if (number !== null && !line.isGap) number += 1;
    const end = ends.get(index);
    if (end) {
      until = end.last;
      isOpen = chosen.get(line.offset) ?? !end.isOver;
      rows.push({ line, number: own, fold: { title: end.title, count: end.count, isOpen }, isInside: false });
    } else if (index <= until) {
      // The line that ends a step says nothing.
      if (isOpen && !(index === until && END.test(textOf(line)))) rows.push({ line, number: own, fold: null, isInside: true });
    } else rows.push({ line, number: own, fold: null, isInside: false });
  }
  return rows;
}

/**
 * @param {Line[]} lines
 * @returns {Map<number, {title: string, last: number, count: number, isOver: boolean}>} By the index of a step's first line: where it ends. Steps do not nest.
 */
function endsOf(lines) {
  const found = new Map();
  let open = null;
  for (const [index, line] of lines.entries()) {
    const text = textOf(line);
    // Few lines are marks: two characters tell, before a pattern is tried.
    if (!text.includes("##") && !text.includes("::")) continue;
    const begins = BEGIN.exec(text);
    if (open !== null && (begins || END.test(text))) {
      found.set(open.index, { title: open.title, last: begins ? index - 1 : index, count: index - open.index - 1, isOver: true });
      open = null;
    }
    if (begins) open = { index, title: begins[1] || "Step" };
  }
  if (open !== null) found.set(open.index, { title: open.title, last: lines.length - 1, count: lines.length - 1 - open.index, isOver: false });
  return found;
}

/**
 * Return the index of the row in which a position lies; the last one before it.
 * @param {Row[]} rows
 * @param {number} offset
 */
export function rowAt(rows, offset) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.line.offset ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/** @param {string | undefined} text "120-345": from which byte to which. @returns {{from: number, to: number} | null} */
export function parseRange(text) {
  const found = /^(\d{1,15})-(\d{1,15})$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return from < to ? { from, to } : null;
}

/** @param {number} time Milliseconds since 1970. @returns {string} "14:03:07.120", as the clock on the wall says it. */
export function clockOf(time) {
  if (!time) return "";
  const moment = new Date(time);
  const two = (/** @type {number} */ count) => String(count).padStart(2, "0");
  return `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}
