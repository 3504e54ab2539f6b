// @ts-check
// Two runs of one command beside each other: which one was before, how they differ, and at which line their output does. Pure.
import { duration, lives, size, stateOf } from "../base/words.js";

/** @typedef {import("../base/words.js").Process} Process */
/** @typedef {{text: string, isEnd: boolean}} Part A line, or a piece of a very long one; `isEnd`: its newline was read. */
/** @typedef {{line: number, one: string | null, other: string | null}} Difference Null: that log has ended before. */

const LONGEST = 256 * 1024; // characters of a line that are held: a longer one is compared in pieces of this length

/** @param {Process} one @param {number} now @returns {[string, string][]} What is compared, besides the output. */
export function factsOf(one, now) {
  const end = one.ended_at === null ? now : Date.parse(one.ended_at);
  const lasted = one.started_at === null ? 0 : (end - Date.parse(one.started_at)) / 1000;
  return [
    ["State", stateOf(one)],
    ["Exit code", one.exit_code === null ? "" : String(one.exit_code)],
    ["Duration", `${lasted < 60 ? `${lasted.toFixed(1)}s` : duration(lasted)}${lives(one) && one.ended_at === null ? " until now" : ""}`],
    ["Standard output", size(one.stdout_bytes)],
    ["Standard error", size(one.stderr_bytes)],
  ];
}

/** Cuts the bytes of one stream into lines; what is not finished is held, up to `LONGEST`. */
export class LineCutter {
  #decoder = new TextDecoder();
  #rest = "";

  /** @param {Uint8Array} bytes @returns {Part[]} What has become whole. */
  take(bytes) {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    let rest = lines.pop() ?? "";
    const parts = lines.flatMap((line) => pieces(line, true));
    while (rest.length >= LONGEST) {
      parts.push({ text: rest.slice(0, LONGEST), isEnd: false });
      rest = rest.slice(LONGEST);
    }
    this.#rest = rest;
    return parts;
  }

  /** @returns {Part[]} The last line, if it has no newline. */
  finish() {
    return this.#rest ? [{ text: this.#rest, isEnd: true }] : [];
  }
}

/** @param {string} line @param {boolean} isEnd @returns {Part[]} */
function pieces(line, isEnd) {
  const found = [];
  for (let from = 0; from + LONGEST <= line.length; from += LONGEST) found.push({ text: line.slice(from, from + LONGEST), isEnd: false });
  found.push({ text: line.slice(found.length * LONGEST), isEnd });
  return found;
}

/** @param {string} text @returns {string} With each number as one: times, pids and counts differ in every run. */
export function withoutNumbers(text) {
  return text.replace(/\d+/g, "0");
}

/**
 * Return where two outputs differ first; null where they are the same. As much as one batch of each is held.
 * @param {AsyncIterator<Part[]>} one
 * @param {AsyncIterator<Part[]>} other
 * @param {(text: string) => string} [same] What counts of a text.
 * @returns {Promise<Difference | null>}
 */
export async function firstDifference(one, other, same = (text) => text) {
  const [mine, its] = [new Ahead(one), new Ahead(other)];
  let line = 1;
  for (;;) {
    const [a, b] = [await mine.next(), await its.next()];
    if (a === null && b === null) return null;
    if (a === null || b === null || a.isEnd !== b.isEnd || same(a.text) !== same(b.text)) return { line, one: a?.text ?? null, other: b?.text ?? null };
    if (a.isEnd) line += 1;
  }
}

/** One part after the other of batches. */
class Ahead {
  /** @type {Part[]} */
  #batch = [];
  #place = 0;
  #batches;

  /** @param {AsyncIterator<Part[]>} batches */
  constructor(batches) {
    this.#batches = batches;
  }

  /** @returns {Promise<Part | null>} Null at the end. */
  async next() {
    while (this.#place === this.#batch.length) {
      const { done, value } = await this.#batches.next();
      if (done) return null;
      this.#batch = value;
      this.#place = 0;
    }
    const part = this.#batch[this.#place] ?? null;
    this.#place += 1;
    return part;
  }
}
