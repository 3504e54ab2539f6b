// @ts-check
// One terminal, drawn by xterm.js, which is loaded when the first one is opened.
import { place } from "../base/address.js";
import { Controls } from "../base/controls.js";
import { processOf, version } from "../base/processes.js";
import { link, scope } from "../base/rpc.js";
import { attach } from "./terminal_wire.js";
import { html, signal, useEffect, useRef } from "../base/ui.js";
import { stateOf, toneOf } from "../base/words.js";

/** @typedef {ReturnType<typeof attach>} Attached */

const SCROLLBACK_LINES = 10_000;
const KEYS = /** @type {const} */ ([
  ["Esc", "\x1b"],
  ["Tab", "\t"],
  ["Ctrl-C", "\x03"],
  ["Ctrl-D", "\x04"],
  ["↑", "\x1b[A"],
]);
/** What is said of the connection. */
const said = signal("");
/** @type {{attached: Attached, focus: () => void} | null} */
let current = null;

export function TerminalView() {
  void version.value;
  const { id } = place.value;
  const process = processOf(id);
  return html`<section class="terminal" aria-label="Terminal">
    <div class="bar">
      ${process && html`<span class=${`state ${toneOf(process)}`}>${stateOf(process)}</span> <b>${process.name ?? process.short_id ?? id.slice(-6)}</b>
        <code class="command" title=${process.command}>${process.command}</code> <a href=${`#/log/${id}`}>Output</a> <${Controls} process=${process} />`}
      <span role="status">${said.value}</span>
      ${scope.value !== "read" && html`<span class="keys">${KEYS.map(([name, bytes]) => html`<button onClick=${() => {
        current?.attached.type(bytes);
        current?.focus();
      }}>${name}</button>`)}</span>`}
    </div>
    ${link.value === "open" || current ? html`<${Screen} key=${id} id=${id} />` : null}
  </section>`;
}

/** @param {{id: string}} props */
function Screen({ id }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    let isGone = false;
    let close = () => {};
    void show(id, /** @type {HTMLElement} */ (place.current)).then((end) => {
      close = end;
      if (isGone) close();
    });
    return () => {
      isGone = true;
      close();
    };
  }, [id]);
  return html`<div class="screen" ref=${place}></div>`;
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
  const [{ Terminal }, { FitAddon }, { UnicodeGraphemesAddon }, { WebLinksAddon }, { WebglAddon }] = await Promise.all([
    import("../vendor/xterm.mjs"),
    import("../vendor/addon-fit.mjs"),
    import("../vendor/addon-unicode-graphemes.mjs"),
    import("../vendor/addon-web-links.mjs"),
    import("../vendor/addon-webgl.mjs"),
  ]);
  const readonly = scope.value === "read";
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const terminal = new Terminal({
    allowProposedApi: true, // widths of characters by graphemes are a proposal of theirs
    cursorBlink: false,
    disableStdin: readonly,
    fontFamily: "ui-monospace, monospace",
    fontSize: 14,
    scrollback: SCROLLBACK_LINES,
    theme: isDark ? {} : { background: "#ffffff", foreground: "#1b1f24", cursor: "#1b1f24", selectionBackground: "#b6d4fe", white: "#57606a", brightWhite: "#1b1f24", yellow: "#7d4e00", brightYellow: "#7d4e00" },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(new UnicodeGraphemesAddon());
  terminal.loadAddon(new WebLinksAddon((_event, address) => void open(address, "_blank", "noopener,noreferrer")));
  terminal.open(element);
  try {
    const drawing = new WebglAddon();
    drawing.onContextLoss(() => drawing.dispose());
    terminal.loadAddon(drawing);
  } catch {
    // Without a graphics processor the lines are elements of the document: slower, and all there.
  }
  if (!readonly) fit.fit();
  const attached = attach(
    id,
    {
      write: (bytes, done) => terminal.write(bytes, done),
      size: () => ({ rows: terminal.rows, cols: terminal.cols }),
      hear(message) {
        // Lines of a process without a terminal end with a bare newline.
        if (message.type === "hello") terminal.options.convertEol = !message.terminal;
        // Who only looks takes the size that the terminal has.
        if (message.type === "hello" && readonly && message.rows && message.cols) terminal.resize(message.cols, message.rows);
        if (message.type === "exited") said.value = message.signal ? `ended by signal ${message.signal}` : `exited with ${message.exit_code ?? "an unknown code"}`;
        if (message.type === "gap") terminal.write("\r\n[some output is no longer kept]\r\n");
      },
      link(isOpen, reason) {
        if (isOpen) said.value = readonly ? "only looks" : "";
        else if (!reason) said.value = "The connection was lost; it goes on where it was.";
        else if (!said.value) said.value = reason;
      },
    },
    { readonly },
  );
  terminal.onData((text) => attached.type(text));
  terminal.onResize((size) => attached.resize(size));
  const watching = new ResizeObserver(() => readonly || fit.fit());
  watching.observe(element);
  current = { attached, focus: () => terminal.focus() };
  terminal.focus();
  return () => {
    watching.disconnect();
    attached.close();
    current = null;
    said.value = "";
    element.replaceChildren();
    terminal.dispose();
  };
}
