// @ts-check
// A list of any length of which only the rows in sight are in the document.
import { html, useLayoutEffect, useRef, useState } from "./ui.js";

const BESIDE = 8; // rows above and below what is in sight: a short scroll shows no white

/**
 * Which rows are drawn. Pure.
 * @param {{count: number, height: number, top: number, view: number}} sizes Rows, pixels of one, scrolled by, pixels in sight.
 */
export function drawn({ count, height, top, view }) {
  const first = Math.max(0, Math.min(count, Math.floor(top / height)) - BESIDE);
  return { first, last: Math.min(count, Math.ceil((top + view) / height) + BESIDE) };
}

/**
 * @param {{count: number, height: number, label: string, row: (index: number) => unknown, onScrolled?: () => void,
 *   onPlace?: (place: HTMLElement | null) => void}} props
 */
export function Rows({ count, height, label, row, onScrolled = () => {}, onPlace = () => {} }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [sizes, setSizes] = useState({ top: 0, view: 0 });
  const measure = () => {
    const found = place.current;
    if (found) setSizes({ top: found.scrollTop, view: found.clientHeight });
  };
  useLayoutEffect(() => {
    measure();
    onPlace(place.current);
    const watching = new ResizeObserver(measure);
    if (place.current) watching.observe(place.current);
    return () => {
      watching.disconnect();
      onPlace(null);
    };
  }, []);
  const scrolled = () => {
    measure();
    onScrolled();
  };
  const { first, last } = drawn({ count, height, ...sizes });
  const indices = Array.from({ length: last - first }, (_, index) => first + index);
  return html`<div class="rows" role="table" aria-label=${label} aria-rowcount=${count} tabindex="0" ref=${place} onScroll=${scrolled}>
    <div class="rows-all" role="rowgroup" style=${{ height: `${count * height}px` }}>
      <div class="rows-drawn" role="presentation" style=${{ transform: `translateY(${first * height}px)` }}>${indices.map(row)}</div>
    </div>
  </div>`;
}
