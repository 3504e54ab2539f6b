// @ts-check
// The machine: what happens on it, its groups, its disk, its places, its settings and its health; which of them is in the address.
import { place } from "../base/address.js";
import { scope } from "../base/rpc.js";
import { html } from "../base/ui.js";
import { ActivityView } from "./activity_view.js";
import { ChecksView } from "./checks_view.js";
import { DiskView } from "./disk_view.js";
import { GroupsView } from "./groups_view.js";
import { PlacesView } from "./places_view.js";
import { SettingsView } from "./settings_view.js";

/** @type {Map<string, {text: string, view: () => unknown, isForAdmins?: boolean}>} By their names in the address. */
const PARTS = new Map([
  ["activity", { text: "Activity", view: ActivityView }],
  ["groups", { text: "Groups", view: GroupsView }],
  ["disk", { text: "Disk", view: DiskView }],
  ["places", { text: "Places", view: PlacesView }],
  ["settings", { text: "Settings", view: SettingsView, isForAdmins: true }],
  ["checks", { text: "Health", view: ChecksView, isForAdmins: true }],
]);

export function MachineView() {
  const offered = [...PARTS].filter(([, { isForAdmins }]) => !isForAdmins || scope.value === "admin");
  const { show = "" } = place.value.query;
  const name = offered.some(([one]) => one === show) ? show : "activity";
  return html`<section class="machine" aria-label="Machine">
    <nav aria-label="Parts">${offered.map(([one, { text }]) => html`<a key=${one} href=${`#/machine?show=${one}`} aria-current=${one === name ? "page" : undefined}>${text}</a>`)}</nav>
    <div class="part" key=${name}><${PARTS.get(name)?.view} /></div>
  </section>`;
}
