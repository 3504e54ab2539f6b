// @ts-check
// One terminal, drawn by xterm.js, which is loaded when the first one is opened.
import { place } from "../base/address.js";
import { Controls } from "../base/controls.js";
import { processOf, version } from "../base/processes.js";
import { link, scope } from "../base/rpc.js";
import { MarkedDrawing } from "./marked_drawing.js";
import { drawIn } from "./terminal_drawing.js";
import { Screen } from "./terminal_screen.js";
import { TerminalSearch, isSearching, searchWith } from "./terminal_search.js";
import { FONT_PX, GivenSizes, fontFor } from "./terminal_size.js";
import { Uploads, takeDrops } from "./terminal_upload.js";
import { attach } from "./terminal_wire.js";
import { html, signal } from "../base/ui.js";
import { size, stateOf, toneOf } from "../base/words.js";

/** @typedef {ReturnType<typeof attach>} Attached */

const KEYS = /** @type {const} */ ([
  ["Esc", "\x1b"],
  ["Tab", "\t"],
  ["Ctrl-C", "\x03"],
  ["Ctrl-D", "\x04"],
  ["↑", "\x1b[A"],
]);
/** What is said of the connection. */
const said = signal("");
/** Who holds the terminal: this viewer, another one, or none; and how many look at it here. */
const holding = signal({ holder: "none", viewers: 1 });
/** Output that was not drawn, since the terminal was opened: how much, and where the newest part of it begins. */
const skipped = signal({ bytes: 0, at: 0 });
/** @type {{attached: Attached, focus: () => void} | null} */
let current = null;

export function TerminalView() {
  void version.value;
  const { id } = place.value;
  const process = processOf(id);
  return html`<section class="terminal" aria-label="Terminal">
    <div class="bar">
      ${process && html`<span class=${`state ${toneOf(process)}`}>${stateOf(process)}</span> <b>${process.name ?? process.short_id ?? id.slice(-6)}</b>
        <code class="command" title=${process.command}>${process.command}</code> <a href=${`#/log/${id}`}>Output</a> <a href=${`#/playback/${id}`}>Play</a> <${Controls} process=${process} />`}
      <span role="status">${said.value}</span>
      ${skipped.value.bytes > 0 && html`<span class="skipped">${size(skipped.value.bytes)} skipped, <a href=${`#/log/${id}?at=${skipped.value.at}`}>Output</a> has all</span>`}
      <${Holder} />
      <button onClick=${() => (isSearching.value = !isSearching.value)} aria-pressed=${isSearching.value}>Search</button>
      ${scope.value !== "read" && html`<span class="keys">${KEYS.map(([name, bytes]) => html`<button onClick=${() => {
        current?.attached.type(bytes);
        current?.focus();
      }}>${name}</button>`)}</span>`}
    </div>
    <${Uploads} />
    <${TerminalSearch} leave=${() => current?.focus()} />
    ${link.value === "open" || current ? html`<${Screen} key=${id} id=${id} show=${show} />` : null}
  </section>`;
}

/** Who types, where several look; and the button that changes it. */
function Holder() {
  const { holder, viewers } = holding.value;
  if (!current || said.value.startsWith("exited")) return null;
  const others = viewers === 2 ? "one other viewer" : `${viewers - 1} other viewers`;
  if (scope.value === "read") return viewers > 1 ? html`<span class="holder">${others}</span>` : null;
  if (holder === "you") {
    return viewers < 2 ? null : html`<span class="holder">You type, ${others} ${viewers === 2 ? "looks" : "look"} on <button onClick=${() => current?.attached.release()}>Hand back</button></span>`;
  }
  const take = () => {
    current?.attached.take(holder === "other");
    current?.focus();
  };
  return html`<span class="holder">${holder === "other" ? "Another viewer types" : "No viewer types"} <button onClick=${take}>${holder === "other" ? "Take over" : "Type here"}</button></span>`;
}

/**
 * Draw a terminal in an element.
 * @param {string} id
 * @param {HTMLElement} element
 * @returns {Promise<() => void>} Ends it.
 */
async function show(id, element) {
  // A value that changes while effects run would draw the page in their middle, and run this one twice.
  await null;
  said.value = "Connecting";
  skipped.value = { bytes: 0, at: 0 };
  const readonly = scope.value === "read";
  const [{ terminal, fit }, { SearchAddon }] = await Promise.all([drawIn(element, { readonly }), import("../vendor/addon-search.mjs")]);
  const searching = new SearchAddon();
  terminal.loadAddon(searching);
  searchWith(searching);
  terminal.attachCustomKeyEventHandler((event) => {
    // Ctrl-F alone is a key of shells.
    if (event.type !== "keydown" || !event.ctrlKey || !event.shiftKey || event.code !== "KeyF") return true;
    event.preventDefault();
    isSearching.value = true;
    return false;
  });
  const drawing = new MarkedDrawing(terminal);
  const given = new GivenSizes();
  holding.value = { holder: "none", viewers: 1 };
  /** The size that the terminal has. @type {import("./terminal_size.js").Size | null} */
  let actual = null;
  /** Draw it in the window's size (of one that holds it), or in the size that it has. @param {boolean} isOwn */
  const arrange = (isOwn) => {
    const { viewportY, baseY } = terminal.buffer.active;
    resized(isOwn);
    if (viewportY >= baseY) terminal.scrollToBottom();
  };
  const resized = (/** @type {boolean} */ isOwn) => {
    element.classList.toggle("letterbox", !isOwn);
    terminal.options.fontSize = FONT_PX;
    if (isOwn) return fit.fit();
    const room = fit.proposeDimensions();
    if (!actual || !room) return;
    terminal.options.fontSize = fontFor(actual, room);
    terminal.resize(actual.cols, actual.rows);
  };
  const holds = () => holding.value.holder === "you";
  if (!readonly) fit.fit();
  const attached = attach(
    id,
    {
      write: (bytes, done) => drawing.write(bytes, done),
      skip({ bytes, modes, at }, done) {
        drawing.skip(modes, `[${size(bytes)} skipped, Output has all]`, done);
        skipped.value = { bytes: skipped.value.bytes + bytes, at };
      },
      size() {
        const own = { rows: terminal.rows, cols: terminal.cols };
        given.give(own); // the server repeats that of a greeting, too
        return own;
      },
      hear(message) {
        // Lines of a process without a terminal end with a bare newline.
        if (message.type === "hello") terminal.options.convertEol = !message.terminal;
        if (["hello", "resized"].includes(message.type) && message.rows && message.cols) {
          const told = { rows: message.rows, cols: message.cols };
          const isDrawn = told.rows === terminal.rows && told.cols === terminal.cols;
          const isForeign = message.type === "resized" && given.isForeign(told) && !isDrawn;
          actual = told;
          // Behind the greeting comes who holds it, and that decides how it is drawn.
          if (message.type === "resized" && (!holds() || isForeign)) arrange(false);
        }
        if (message.type === "holder") {
          const had = holds();
          holding.value = { holder: message.holder, viewers: message.viewers };
          if (holds() && !had) {
            arrange(true);
            give({ rows: terminal.rows, cols: terminal.cols });
          } else if (!holds()) arrange(false);
        }
        if (message.type === "exited") said.value = message.signal ? `ended by signal ${message.signal}` : `exited with ${message.exit_code ?? "an unknown code"}`;
        if (message.type === "gap") terminal.write("\r\n[some output is no longer kept]\r\n");
      },
      link(isOpen, reason) {
        if (!isOpen) holding.value = { holder: "none", viewers: 1 };
        if (isOpen && /^(exited|ended)/.test(said.value)) return;
        if (isOpen) said.value = readonly ? "only looks" : "";
        else if (!reason) said.value = "The connection was lost; it goes on where it was.";
        else if (!said.value) said.value = reason;
      },
    },
    { readonly },
  );
  /** @param {import("./terminal_size.js").Size} size */
  const give = (size) => {
    given.give(size);
    attached.resize(size);
  };
  // A key takes a terminal that no viewer holds; what the emulator says by itself does not.
  terminal.onKey(() => !readonly && holding.value.holder === "none" && attached.take(false));
  terminal.onData((text) => attached.type(text));
  terminal.onResize((size) => holds() && !element.classList.contains("letterbox") && give(size));
  const watching = new ResizeObserver(() => arrange(holds()));
  watching.observe(element);
  // Pasted, so that a shell shows the name and runs nothing.
  if (!readonly) takeDrops(element, id, (text) => terminal.paste(text));
  current = { attached, focus: () => terminal.focus() };
  terminal.focus();
  return () => {
    watching.disconnect();
    attached.close();
    current = null;
    searchWith(null);
    said.value = "";
    element.replaceChildren();
    terminal.dispose();
  };
}
