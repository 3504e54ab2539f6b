// How a terminal is drawn over a skip: the modes, the line that says so, and what comes behind, in this order. Run by test_pure.py in plain Node.
import assert from "node:assert/strict";
import test from "node:test";

import { MarkedDrawing } from "./page/terminals/marked_drawing.js";

const bytes = (text) => new TextEncoder().encode(text);

/** A terminal that draws later, as xterm.js does; it knows its two screens and the cursor's column. */
class SlowTerminal {
  text = "";
  buffer = { active: { type: "normal", cursorX: 0 } };
  #queue = [];
  write(data, done) {
    this.#queue.push([typeof data === "string" ? data : new TextDecoder().decode(data), done]);
  }
  /** Draw what was given, and what is given meanwhile. */
  draw() {
    for (let next; (next = this.#queue.shift()); ) {
      const [data, done] = next;
      for (const [, mode] of data.matchAll(/\x1b\[\?1049([hl])/g)) this.buffer.active.type = mode === "h" ? "alternate" : "normal";
      this.text += data;
      this.buffer.active.cursorX = this.text.length - this.text.lastIndexOf("\n") - 1;
      done?.();
    }
  }
}

test("what comes behind a skip is drawn behind its line", () => {
  const terminal = new SlowTerminal();
  const drawing = new MarkedDrawing(terminal);
  const drawn = [];
  drawing.write(bytes("half a li"), () => drawn.push("before"));
  drawing.skip("\x1b[?25h", "[9 skipped]", () => drawn.push("skip"));
  drawing.write(bytes("behind"), () => drawn.push("behind"));
  terminal.draw();
  assert.equal(terminal.text, "half a li\x1b[?25h\r\n[9 skipped]\r\nbehind");
  assert.deepEqual(drawn, ["before", "skip", "behind"]);
});

test("several skips in a row keep their order", () => {
  const terminal = new SlowTerminal();
  const drawing = new MarkedDrawing(terminal);
  drawing.write(bytes("a\n"), () => {});
  drawing.skip("", "[1]", () => {});
  drawing.write(bytes("b\n"), () => {});
  drawing.skip("", "[2]", () => {});
  drawing.skip("", "[3]", () => {});
  drawing.write(bytes("c\n"), () => {});
  terminal.draw();
  drawing.write(bytes("d\n"), () => {});
  terminal.draw();
  assert.equal(terminal.text.replaceAll("\r", ""), "a\n[1]\nb\n[2]\n[3]\nc\nd\n");
});

test("the picture of a full-screen program gets no line", () => {
  const terminal = new SlowTerminal();
  const drawing = new MarkedDrawing(terminal);
  drawing.skip("\x1b[?1049h", "[9 skipped]", () => {});
  terminal.draw();
  assert.equal(terminal.text, "\x1b[?1049h");
  // And one that has ended in what was skipped is over.
  drawing.skip("\x1b[?1049l", "[9 skipped]", () => {});
  terminal.draw();
  assert.ok(terminal.text.endsWith("\x1b[?1049l\r\n[9 skipped]\r\n"), JSON.stringify(terminal.text));
});
