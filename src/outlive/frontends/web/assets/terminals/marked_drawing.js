// @ts-check
// Writes to a terminal in which a part of the output is left out: what the part has switched, a line where it is missing, then the rest.

/**
 * The part of xterm.js's terminal that is needed.
 * @typedef {object} Drawing
 * @property {(data: string | Uint8Array, done?: () => void) => void} write
 * @property {{active: {type: string, cursorX: number}}} buffer
 */

/** Everything is drawn in the order in which it is given, also while a skip is on its way. */
export class MarkedDrawing {
  #terminal;
  /** What came while it is not known yet which screen a skip has left. @type {(() => void)[] | null} */
  #waiting = null;

  /** @param {Drawing} terminal */
  constructor(terminal) {
    this.#terminal = terminal;
  }

  /** @param {Uint8Array} bytes @param {() => void} done Is called once they are drawn. */
  write(bytes, done) {
    this.#inOrder(() => this.#terminal.write(bytes, done));
  }

  /**
   * Go on behind a part that is left out.
   * @param {string} modes What the part has switched, as escape sequences.
   * @param {string} mark The line that says so. The picture of a full-screen program has no place for it.
   * @param {() => void} done Is called once it is drawn.
   */
  skip(modes, mark, done) {
    this.#inOrder(() => {
      this.#waiting = [];
      // Bytes, as the output is: a character that the skip has cut in two ends here.
      this.#terminal.write(new TextEncoder().encode(modes), () => {
        const { type, cursorX } = this.#terminal.buffer.active;
        this.#terminal.write(type === "normal" ? `${cursorX > 0 ? "\r\n" : ""}${mark}\r\n` : "", done);
        const steps = this.#waiting ?? [];
        this.#waiting = null;
        // One of them may be another skip: then those behind it wait for that.
        for (const step of steps) this.#inOrder(step);
      });
    });
  }

  /** @param {() => void} step */
  #inOrder(step) {
    if (this.#waiting) this.#waiting.push(step);
    else step();
  }
}
