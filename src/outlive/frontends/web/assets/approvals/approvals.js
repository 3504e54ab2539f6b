// @ts-check
// What waits for a person's approval, live: asked for by an administrator's page alone.
import { NEVER, stir } from "../base/calm.js";
import { hear, link, request, scope } from "../base/rpc.js";
import { signal } from "../base/ui.js";

/** @typedef {{process_id: string, digest: string, command: string, argv: string[], script: string | null, script_bytes: number, cwd: string,
 *   variables: string[], env: Record<string, string | null>, profile: string, location: Record<string, string> | null, reason: string, principal: string,
 *   always: {project: string, commands: string[][]} | null, only_once: string, since: string, expires_at: string | null, tags: Record<string, string>, group: string | null, redacted?: number}} Approval */

// Events tell of this caller's own starts at once; those of other callers are looked for.
const EACH_MS = 3000;

/** Oldest first. */
export const approvals = signal(/** @type {Approval[]} */ ([]));
/** When the list has changed last, for `isCalm`. */
export const changedAt = signal(NEVER);
/** Which of them are shown with their secrets, by digest. */
export const revealed = signal(/** @type {ReadonlyMap<string, Approval>} */ (new Map()));

/** Whether this page may decide. */
export function decides() {
  return scope.value === "admin";
}

/** Look what waits now. */
export async function refreshApprovals() {
  if (!decides() || link.value !== "open") return;
  const found = /** @type {Approval[]} */ ((await request("approvals")).approvals);
  const digests = (/** @type {Approval[]} */ list) => list.map((one) => one.digest).join();
  if (digests(found) === digests(approvals.value)) return;
  changedAt.value = stir();
  approvals.value = found;
}

/** Show one with its secrets; that is entered in the audit log. @param {Approval} one */
export async function reveal(one) {
  const found = /** @type {Approval[]} */ ((await request("approvals", { raw: true })).approvals);
  const whole = found.find(({ digest }) => digest === one.digest);
  if (whole) revealed.value = new Map(revealed.value).set(one.digest, whole);
}

/** @param {Approval} one @param {boolean} always Whether the same is approved in its project from now on. */
export async function approve(one, always = false) {
  // The digest stands for what was shown: where something else waits by now, nothing starts.
  await request("approve", { process_id: one.process_id, digest: one.digest, ...(always && { always }) });
  await refreshApprovals();
}

/** @param {Approval} one @param {string} reason One sentence for the caller, "" for none. */
export async function deny(one, reason) {
  await request("deny", { process_id: one.process_id, reason });
  await refreshApprovals();
}

/** Begin. */
export function followApprovals() {
  const look = () => void refreshApprovals().catch(() => {}); // lost: the next connection looks anew
  hear((method, params) => {
    if (method === "connected" || (method === "event" && String(params.event).startsWith("approval_"))) look();
  });
  setInterval(() => document.hidden || look(), EACH_MS);
}
