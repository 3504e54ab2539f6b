// @ts-check
// The machine: what happens on it, its groups, its disk, its places, its settings and its health; which of them is in the address.
import { place } from "../base/address.js";
import { html } from "../base/ui.js";
import { ActivityView } from "./activity_view.js";
import { DiskView } from "./disk_view.js";

/** @type {Map<string, {text: string, view: () => unknown}>} By their names in the address. */
const PARTS = new Map([
  ["activity", { text: "Activity", view: ActivityView }],
  ["disk", { text: "Disk", view: DiskView }],
]);

export function MachineView() {
  const name = PARTS.has(place.value.query.show ?? "") ? place.value.query.show : "activity";
  return html`<section class="machine" aria-label="Machine">
    <nav aria-label="Parts">${[...PARTS].map(([one, { text }]) => html`<a key=${one} href=${`#/machine?show=${one}`} aria-current=${one === name ? "page" : undefined}>${text}</a>`)}</nav>
    <div class="part" key=${name}><${PARTS.get(name ?? "")?.view} /></div>
  </section>`;
}
