// @ts-check
// One chart over time, drawn by uPlot, which is fetched when the first is shown. A chart says in words what it shows; its numbers are a table beside it.
import { marksOf } from "./machine_model.js";
import { html, useEffect, useRef } from "../base/ui.js";

/** @typedef {{label: string, colour: string, shape: "bars" | "line"}} Series `colour`: a name of style.css. */

const HEIGHT_PX = 160;

/** What a colour of style.css is now: a canvas knows no variables. @param {string} name */
function colourOf(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** @param {number} width @param {Series[]} series @param {(value: number) => string} say @param {any} uPlot */
function optionsOf(width, series, say, uPlot) {
  const axis = { stroke: colourOf("soft"), grid: { stroke: colourOf("line"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT_PX,
    cursor: { drag: { x: false, y: false } },
    legend: { live: true },
    scales: { y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [{ ...axis, values: (/** @type {any} */ _, /** @type {number[]} */ times) => marksOf(times) }, { ...axis, size: 64, values: (/** @type {any} */ _, /** @type {number[]} */ values) => values.map(say) }],
    series: [
      { value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      ...series.map(({ label, colour, shape }) => ({
        label,
        stroke: colourOf(colour),
        fill: shape === "bars" ? colourOf(colour) : undefined,
        width: shape === "bars" ? 0 : 2, // a bar of nothing would be a line
        points: { show: false },
        paths: shape === "bars" ? uPlot.paths.bars({ size: [0.7, 24] }) : undefined,
        value: (/** @type {any} */ _, /** @type {number | null} */ value) => (value === null ? "" : say(value)),
      })),
    ],
  };
}

/** @param {{title: string, words: string, series: Series[], columns: number[][], say: (value: number) => string}} props */
export function Chart({ title, words, series, columns, say }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useRef(/** @type {any} */ (null));
  const newest = useRef(columns);
  newest.current = columns;
  useEffect(() => {
    let isOver = false;
    const watching = new ResizeObserver(() => {
      if (place.current) drawn.current?.setSize({ width: place.current.clientWidth, height: HEIGHT_PX });
    });
    void import("../vendor/uplot.mjs").then(({ default: uPlot }) => {
      if (isOver || !place.current) return;
      const options = /** @type {any} */ (optionsOf(place.current.clientWidth, series, say, uPlot));
      drawn.current = new uPlot(options, /** @type {any} */ (newest.current), place.current);
      watching.observe(place.current);
    });
    return () => {
      isOver = true;
      watching.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, []);
  useEffect(() => drawn.current?.setData(columns), [columns]);
  return html`<figure class="chart"><figcaption>${title} <span>${words}</span></figcaption><div role="img" aria-label=${`${title}: ${words}`} ref=${place}></div></figure>`;
}
