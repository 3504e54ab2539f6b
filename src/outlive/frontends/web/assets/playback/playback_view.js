// @ts-check
// A terminal played back as it looked: with speed, pauses and jumps.
import { place, refine } from "../base/address.js";
import { attempt } from "../base/controls.js";
import { processOf, version } from "../base/processes.js";
import { link } from "../base/rpc.js";
import { html } from "../base/ui.js";
import { save, saved } from "../log/log_download.js";
import { drawIn } from "../terminals/terminal_drawing.js";
import { Screen } from "../terminals/terminal_screen.js";
import { FONT_PX, fontFor } from "../terminals/terminal_size.js";
import { lengthOf } from "./playback_model.js";
import { change, jump, openRecording, player, run, toggle } from "./player.js";

const SPEEDS = [1, 4, 16];

export function PlaybackView() {
  void version.value;
  const { id } = place.value;
  const process = processOf(id);
  const { begin, end, now, isPlaying, isReady, speed, skips } = player.value;
  const go = (/** @type {number} */ to) => {
    refine({ t: to > 0 ? String(Math.round(to)) : "" });
    void attempt(() => jump(to));
  };
  return html`<section class="terminal" aria-label="Playback">
    <div class="bar">
      ${process && html`<b>${process.name ?? process.short_id ?? id.slice(-6)}</b> <code class="command" title=${process.command}>${process.command}</code>`}
      <a href=${`#/log/${id}`}>Output</a> <a href=${`#/terminal/${id}`}>Terminal</a>
      ${saved.value === null ? html`<button title="For asciinema and its like" onClick=${() => void attempt(() => save(id, "asciicast"))}>Save as asciicast</button>` : html`<output>Saving</output>`}
    </div>
    <div class="bar">
      <button disabled=${!isReady} onClick=${() => void attempt(toggle)}>${isPlaying ? "Pause" : "Play"}</button>
      ${SPEEDS.map((one) => html`<button aria-pressed=${speed === one} onClick=${() => change({ speed: one })}>${one}x</button>`)}
      <button aria-pressed=${skips} onClick=${() => change({ skips: !skips })}>Skip pauses</button>
      <input type="range" aria-label="Time" min="0" max=${end - begin} step="1" value=${now - begin} disabled=${!isReady}
        onChange=${(/** @type {Event} */ event) => go(Number(/** @type {HTMLInputElement} */ (event.target).value))} />
      <output>${lengthOf(now - begin)} of ${lengthOf(end - begin)}</output>
      ${isReady && html`<time>${new Date(now).toLocaleString()}</time>`}
    </div>
    ${link.value === "open" || player.value.id ? html`<${Screen} key=${id} id=${id} show=${show} kind="letterbox" />` : null}
  </section>`;
}

/** @param {string} id @param {HTMLElement} element @returns {Promise<() => void>} Ends it. */
async function show(id, element) {
  await null; // not while effects run
  const { terminal, fit } = await drawIn(element, { readonly: true });
  const arrange = () => {
    const wanted = { rows: terminal.rows, cols: terminal.cols };
    terminal.options.fontSize = FONT_PX;
    const room = fit.proposeDimensions();
    if (room) terminal.options.fontSize = fontFor(wanted, room);
  };
  const watching = new ResizeObserver(arrange);
  watching.observe(element);
  const stop = run();
  void attempt(async () => {
    await openRecording(id, {
      write: (bytes) => terminal.write(bytes),
      resize(cols, rows) {
        if (terminal.cols === cols && terminal.rows === rows) return;
        terminal.resize(cols, rows);
        arrange();
      },
      reset: () => terminal.reset(),
    });
    const { t } = place.value.query;
    if (t) await jump(Number(t) || 0);
  });
  return () => {
    watching.disconnect();
    stop();
    element.replaceChildren();
    terminal.dispose();
  };
}
