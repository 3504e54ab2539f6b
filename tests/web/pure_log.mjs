// What the view of a log decides without a browser: lines and their bytes, steps, ranges, times. Run by test_pure.py in plain Node.
import assert from "node:assert/strict";
import test from "node:test";

import { clockOf, parseRange, rowAt, rowsOf } from "./page/log/log_folds.js";
import { due, later, lengthOf, sizeAt } from "./page/playback/playback_model.js";
import { shellWord } from "./page/terminals/terminal_upload.js";
import { GivenSizes, fontFor } from "./page/terminals/terminal_size.js";
import { linesOf, newlinesIn, piecesOf, textOf } from "./page/log/log_model.js";

/** Pieces as they stand one behind the other in a log. */
function pieces(...parts) {
  let offset = 0;
  return parts.map(([stream, text, time = 0]) => {
    const bytes = new TextEncoder().encode(text);
    offset += bytes.length;
    return { offset: offset - bytes.length, length: bytes.length, stream, bytes, time };
  });
}
const rows = (text, { first = 1, chosen = new Map() } = {}) => rowsOf(linesOf(pieces(["stdout", text])), { first, chosen });
const shown = (found) => found.map(({ line, fold }) => (fold ? `${fold.isOpen ? "v" : ">"} ${fold.title} ${fold.count}` : textOf(line)));

test("each line knows its bytes and when it was begun, wherever pieces are cut", () => {
  const lines = linesOf(pieces(["stdout", "gr\u00fc", 5], ["stdout", "n\nb", 9], ["stderr", "wrong\n", 10], ["stdout", "\n\nend", 11]));
  assert.deepEqual(lines.map((line) => [textOf(line), line.offset, line.end, line.time]), [
    ["gr\u00fcn", 0, 6, 5], ["wrong", 7, 13, 10], ["b", 6, 14, 9], ["", 14, 15, 11], ["end", 15, 18, 11],
  ]);
  assert.equal(newlinesIn(pieces(["stdout", "a\n\nb"], ["stderr", "c\n"])), 3);
  assert.deepEqual(piecesOf([{ type: "stdout", data: btoa("x"), time: "2026-01-31T12:00:00.250000Z" }], 3)[0].time % 1000, 250);
});

test("a step is folded once it is over, and open while it runs or when it was opened", () => {
  const text = "before\n::group::Build it\none\ntwo\n::endgroup::\nbetween\n2026-01-31T12:00:00.1Z ##[group]Test\nthree\n";
  assert.deepEqual(shown(rows(text)), ["before", "> Build it 2", "between", "v Test 1", "three"]);
  assert.deepEqual(rows(text).map((row) => row.number), [1, 2, 6, 7, 8]);
  const chosen = new Map([[7, true], [rows(text)[3].line.offset, false]]);
  assert.deepEqual(shown(rows(text, { chosen })), ["before", "v Build it 2", "one", "two", "between", "> Test 1"]);
  assert.deepEqual(rows(text, { first: null }).map((row) => row.number), [null, null, null, null, null]);
});

test("a step that begins ends the one before, and an end without a beginning is a line", () => {
  assert.deepEqual(shown(rows("::group::A\n1\n::group::B\n2\n::endgroup::\n::endgroup::\nx::group::no\n")), ["> A 1", "> B 1", "::endgroup::", "x::group::no"]);
});

test("a position is found in its row", () => {
  const found = rows("one\ntwo\nthree\n");
  assert.deepEqual([0, 3, 4, 7, 8, 100].map((offset) => rowAt(found, offset)), [0, 0, 1, 1, 2, 2]);
  assert.equal(rowAt([], 5), 0);
});

test("ranges and times are read and said", () => {
  assert.deepEqual(parseRange("12-40"), { from: 12, to: 40 });
  for (const wrong of [undefined, "", "40-12", "1-1", "-5", "1-2-3", "x"]) assert.equal(parseRange(wrong), null);
  assert.match(clockOf(Date.parse("2026-01-31T12:00:05.007Z")), /^\d\d:\d\d:05\.007$/);
  assert.equal(clockOf(0), "");
});

test("a terminal that is larger than the window is drawn smaller, as far as it can be read", () => {
  const room = { rows: 30, cols: 100 };
  assert.deepEqual([{ rows: 24, cols: 80 }, { rows: 30, cols: 200 }, { rows: 60, cols: 80 }, { rows: 24, cols: 1000 }].map((one) => fontFor(one, room)), [14, 7, 7, 7]);
  assert.equal(fontFor({ rows: 40, cols: 100 }, room), 10);
  const given = new GivenSizes();
  given.give({ rows: 24, cols: 80 });
  given.give({ rows: 25, cols: 81 });
  assert.equal(given.isForeign({ rows: 24, cols: 80 }), false, "the answer to an earlier one");
  assert.equal(given.isForeign({ rows: 10, cols: 10 }), true);
  assert.equal(given.isForeign({ rows: 25, cols: 81 }), false);
  assert.equal(given.isForeign({ rows: 24, cols: 80 }), true, "behind the newest none of ours comes");
});

test("a recording's time passes as fast as is asked for, and of a pause that is skipped a second is left", () => {
  const frames = [10, 20, 20, 30].map((time) => ({ time, offset: 0, bytes: new Uint8Array() }));
  assert.deepEqual([9, 10, 20, 29, 99].map((now) => due(frames, now)), [0, 1, 3, 3, 4]);
  const how = { passed: 100, speed: 4, next: null, end: 1e6, skips: false };
  assert.equal(later(1000, how), 1400);
  assert.equal(later(999_900, how), 1e6);
  assert.equal(later(1000, { ...how, next: 60_000, skips: true }), 56_000);
  assert.equal(later(1000, { ...how, next: 1100, skips: true }), 1400);
  const sizes = [{ at: 0, rows: 1, cols: 2 }, { at: 9, rows: 3, cols: 4 }];
  assert.deepEqual([0, 8, 9, 100].map((at) => sizeAt(sizes, at).rows), [1, 1, 3, 3]);
  assert.equal(sizeAt([], 5).cols, 80);
  assert.deepEqual([-5, 59_999, 60_000, 3_723_000].map(lengthOf), ["0:00", "0:59", "1:00", "1:02:03"]);
});

test("a path is one word of a shell", () => {
  assert.deepEqual(["/srv/a-b_1.csv", "/a b", "/it's", "/$(x)"].map(shellWord), ["/srv/a-b_1.csv", "'/a b'", "'/it'\\''s'", "'/$(x)'"]);
});
