// Terminals that a test drives: one JSON object a line on stdin says what to do, lines on stdout say what came of it.
// Each is an xterm.js without a screen whose socket addon-attach reads and writes, as on a web page.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const require = createRequire(`${process.argv[2]}/`);
const { Terminal } = require("@xterm/headless");
const { AttachAddon } = require("@xterm/addon-attach");
const WebSocket = require("ws");
globalThis.WebSocket = WebSocket; // addon-attach asks it for the states' numbers, as in a browser

const terminals = new Map();

function attach(one, { url, bidirectional }) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    socket.binaryType = "arraybuffer";
    one.closed = null;
    socket.addEventListener("message", (event) => {
      if (typeof event.data === "string") one.texts += 1;
      else one.bytes += event.data.byteLength;
    });
    socket.addEventListener("close", (event) => {
      one.closed = { code: event.code, reason: event.reason };
    });
    socket.addEventListener("error", (event) => reject(new Error(event.message)));
    socket.addEventListener("open", () => resolve(null));
    one.socket = socket;
    one.addon = new AttachAddon(socket, { bidirectional });
    one.terminal.loadAddon(one.addon);
  });
}

function attributes(cell) {
  const flags = [cell.isBold(), cell.isInverse(), cell.isUnderline(), cell.isDim(), cell.isItalic()].map(Boolean);
  return [cell.getFgColorMode(), cell.getFgColor(), cell.getBgColorMode(), cell.getBgColor(), ...flags.map(Number)].join();
}

const steps = {
  async open({ name, rows, cols, ...how }) {
    const terminal = new Terminal({ rows, cols, allowProposedApi: true, scrollback: 5000 });
    const one = { terminal, bytes: 0, texts: 0 };
    terminals.set(name, one);
    return await attach(one, how);
  },
  async again({ name, ...how }) {
    const one = terminals.get(name);
    one.addon.dispose();
    return await attach(one, how);
  },
  async example({ name, source, address, token }) {
    const terminal = new Terminal({ rows: 24, cols: 80, allowProposedApi: true, scrollback: 5000 });
    terminals.set(name, { terminal, bytes: 0, texts: 0, closed: null });
    class Watched extends WebSocket {
      constructor(...words) {
        super(...words);
        this.addEventListener("close", ({ code, reason }) => (terminals.get(name).closed = { code, reason }));
      }
    }
    new Function("WebSocket", `${source}; return attach;`)(Watched)(terminal, address, token);
    return null;
  },
  async cut({ name }) {
    const { socket } = terminals.get(name);
    const over = new Promise((resolve) => socket.addEventListener("close", resolve));
    socket.terminate();
    await over;
    return null;
  },
  async type({ name, text }) {
    terminals.get(name).terminal.input(text, true);
    return null;
  },
  async look({ name }) {
    const one = terminals.get(name);
    const { terminal } = one;
    await new Promise((resolve) => terminal.write("", resolve));
    const buffer = terminal.buffer.active;
    const lines = [];
    const cells = [];
    for (let y = 0; y < terminal.rows; y += 1) {
      const line = buffer.getLine(buffer.baseY + y);
      lines.push(line.translateToString(true).trimEnd());
      cells.push(Array.from({ length: terminal.cols }, (_, x) => attributes(line.getCell(x))).join(" "));
    }
    const place = [buffer.cursorY, buffer.cursorX];
    return { lines, cells, place, buffer: buffer.type, bytes: one.bytes, texts: one.texts, closed: one.closed };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const words = JSON.parse(line);
  steps[words.do](words).then(
    (result) => process.stdout.write(`${JSON.stringify({ step: words.step, result })}\n`),
    (error) => process.stdout.write(`${JSON.stringify({ step: words.step, error: String(error) })}\n`),
  );
}
process.exit(0);
