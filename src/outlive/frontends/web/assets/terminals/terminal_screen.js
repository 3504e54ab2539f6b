// @ts-check
// The element in which a terminal is drawn, for as long as it is in the document.
import { html, useEffect, useRef } from "../base/ui.js";

/**
 * @param {{id: string, show: (id: string, element: HTMLElement) => Promise<() => void>, kind?: string}} props `show` draws it there; what
 *   it gives ends that. `kind`: further classes.
 */
export function Screen({ id, show, kind = "" }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    let isGone = false;
    let close = () => {};
    void show(id, /** @type {HTMLElement} */ (element.current)).then((end) => {
      close = end;
      if (isGone) close();
    });
    return () => {
      isGone = true;
      close();
    };
  }, [id]);
  return html`<div class=${`screen ${kind}`} ref=${element}></div>`;
}
