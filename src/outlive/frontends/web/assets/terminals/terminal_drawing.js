// @ts-check
// A terminal of xterm.js in an element of the page; the library is loaded when the first one is drawn.
import { FONT_PX } from "./terminal_size.js";

const SCROLLBACK_LINES = 10_000;
const LIGHT = { background: "#ffffff", foreground: "#1b1f24", cursor: "#1b1f24", selectionBackground: "#b6d4fe", white: "#57606a", brightWhite: "#1b1f24", yellow: "#7d4e00", brightYellow: "#7d4e00" };

/**
 * Draw an empty terminal; the caller disposes of it.
 * @param {HTMLElement} element
 * @param {{readonly: boolean}} options `readonly`: it takes no keys.
 */
export async function drawIn(element, { readonly }) {
  const [{ Terminal }, { FitAddon }, { UnicodeGraphemesAddon }, { WebLinksAddon }, { WebglAddon }] = await Promise.all([
    import("../vendor/xterm.mjs"),
    import("../vendor/addon-fit.mjs"),
    import("../vendor/addon-unicode-graphemes.mjs"),
    import("../vendor/addon-web-links.mjs"),
    import("../vendor/addon-webgl.mjs"),
  ]);
  const terminal = new Terminal({
    allowProposedApi: true, // widths of characters by graphemes are a proposal of theirs
    cursorBlink: false,
    disableStdin: readonly,
    fontFamily: "ui-monospace, monospace",
    fontSize: FONT_PX,
    scrollback: SCROLLBACK_LINES,
    theme: matchMedia("(prefers-color-scheme: dark)").matches ? {} : LIGHT,
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
  return { terminal, fit };
}
