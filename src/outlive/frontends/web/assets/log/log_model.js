// @ts-check
// From pieces of a log to lines with colours: what the log's view draws. Pure.

/** @typedef {{offset: number, length: number, stream: "stdout" | "stderr", bytes: Uint8Array | null, time: number}} Piece A piece of the
 *   output; without bytes it is a gap: the log no longer holds it. `offset` counts the bytes of both streams, in the order of writing;
 *   `time` is in milliseconds since 1970, 0 where it is not known. */
/** @typedef {{text: string, classes: string}} Span */
/** @typedef {{spans: Span[], stream: "stdout" | "stderr", offset: number, end: number, time: number, isGap?: boolean}} Line From `offset`
 *   to `end`, its newline included; bytes of the other stream may lie between. */
/** @typedef {{type: "stdout" | "stderr", data?: string, time?: string, gap?: boolean, from?: number, to?: number}} Chunk */

const LONGEST = 4000; // characters of a line that are drawn
const NEWLINE = 10;

/**
 * @param {Chunk[]} chunks Of a page, encoded in base64.
 * @param {number} offset Where the page begins.
 * @returns {Piece[]}
 */
export function piecesOf(chunks, offset) {
  const pieces = [];
  for (const chunk of chunks) {
    const bytes = chunk.gap ? null : Uint8Array.from(atob(chunk.data ?? ""), (one) => one.charCodeAt(0));
    const length = bytes === null ? (chunk.to ?? 0) - (chunk.from ?? 0) : bytes.length;
    pieces.push({ offset, length, stream: chunk.type, bytes, time: chunk.time ? Date.parse(chunk.time) : 0 });
    offset += length;
  }
  return pieces;
}

/** @param {Piece[]} pieces @returns {number} */
export function lengthOf(pieces) {
  return pieces.reduce((sum, one) => sum + one.length, 0);
}

/** @param {Piece[]} pieces @returns {number} How many lines end in them. */
export function newlinesIn(pieces) {
  let count = 0;
  for (const { bytes } of pieces) for (let at = bytes?.indexOf(NEWLINE) ?? -1; at >= 0; at = bytes?.indexOf(NEWLINE, at + 1) ?? -1) count += 1;
  return count;
}

/**
 * Return the lines of pieces, in the order in which they were finished; what is not finished yet comes last.
 * @param {Piece[]} pieces
 * @returns {Line[]}
 */
export function linesOf(pieces) {
  /** @type {Line[]} */
  const lines = [];
  /** @type {Record<string, {decoder: TextDecoder, rest: string, offset: number, time: number, end: number, isBegun: boolean, colours: Set<string>}>} */
  const streams = {};
  for (const { stream, bytes, offset, length, time } of pieces) {
    const state = (streams[stream] ??= { decoder: new TextDecoder(), rest: "", offset, time, end: offset, isBegun: false, colours: new Set() });
    if (bytes === null) {
      lines.push({ spans: [{ text: `… ${length} bytes are no longer kept …`, classes: "" }], stream, offset, end: offset + length, time, isGap: true });
      continue;
    }
    for (let at = 0; at < length; ) {
      const newline = bytes.indexOf(NEWLINE, at);
      const stop = newline < 0 ? length : newline;
      if (!state.isBegun) Object.assign(state, { offset: offset + at, time, isBegun: true });
      state.rest += state.decoder.decode(bytes.subarray(at, stop), { stream: newline < 0 });
      state.end = offset + Math.min(stop + 1, length);
      at = stop + 1;
      if (newline < 0) break;
      lines.push({ spans: spansOf(state.rest, state.colours), stream, offset: state.offset, end: state.end, time: state.time });
      state.rest = "";
      state.isBegun = false;
    }
  }
  for (const [stream, { isBegun, rest, colours, offset, end, time }] of Object.entries(streams)) {
    if (isBegun && rest) lines.push({ spans: spansOf(rest, colours), stream: /** @type {Line["stream"]} */ (stream), offset, end, time });
  }
  return lines;
}

/** @param {Line} line @returns {string} */
export function textOf(line) {
  return line.spans.map((one) => one.text).join("");
}

// ECMA-48: CSI sequences, OSC strings, and single escapes. Only SGR (CSI … m) changes what is drawn here.
// eslint-disable-next-line no-control-regex
const ESCAPE = /\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/** @type {Record<number, string>} */
const STYLES = { 1: "bold", 2: "faint", 3: "italic", 4: "underlined", 7: "inverse" };

/**
 * Return a line's text in pieces of one look, and change `classes` as its colours do.
 * @param {string} text
 * @param {Set<string>} classes
 * @returns {Span[]}
 */
export function spansOf(text, classes) {
  const plain = text.endsWith("\r") ? text.slice(0, -1) : text;
  // A progress bar is as its last carriage return has left it.
  const shown = plain.slice(plain.lastIndexOf("\r") + 1);
  /** @type {Span[]} */
  const spans = [];
  let left = LONGEST;
  let from = 0;
  const push = (/** @type {string} */ piece) => {
    const cut = piece.slice(0, left);
    if (cut) spans.push({ text: cut, classes: [...classes].join(" ") });
    left -= cut.length;
  };
  for (const found of shown.matchAll(ESCAPE)) {
    push(shown.slice(from, found.index));
    from = found.index + found[0].length;
    // With a mark of its own kind before the numbers (`>4;2m`) it is no SGR sequence.
    if (found[2] === "m" && !/[<-?]/.test(found[1] ?? "")) apply(found[1] ?? "", classes);
  }
  push(shown.slice(from));
  if (left <= 0) spans.push({ text: "…", classes: "cut" });
  return spans;
}

/**
 * @param {string} codes The numbers of a SGR sequence.
 * @param {Set<string>} classes
 */
function apply(codes, classes) {
  const numbers = codes.split(/[;:]/).map(Number);
  const replace = (/** @type {string} */ kind, /** @type {string} */ name) => {
    for (const one of classes) if (one.startsWith(kind)) classes.delete(one);
    if (name) classes.add(`${kind}${name}`);
  };
  for (let place = 0; place < numbers.length; place += 1) {
    const code = numbers[place] ?? 0;
    if (code === 0) classes.clear();
    else if (STYLES[code]) classes.add(STYLES[code]);
    else if (code === 22) ["bold", "faint"].forEach((one) => classes.delete(one));
    else if (STYLES[code - 20]) classes.delete(STYLES[code - 20] ?? "");
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) replace("fg-", COLOURS[code % 10] ?? "");
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) replace("bg-", COLOURS[code % 10] ?? "");
    else if (code === 39) replace("fg-", "");
    else if (code === 49) replace("bg-", "");
    else if (code === 38 || code === 48) {
      // Of 256 colours the first sixteen have names; others are left as they are.
      const isIndexed = numbers[place + 1] === 5;
      const index = numbers[place + 2] ?? 99;
      if (isIndexed && index < 16) replace(code === 38 ? "fg-" : "bg-", COLOURS[index % 8] ?? "");
      place += isIndexed ? 2 : 4;
    }
  }
}
