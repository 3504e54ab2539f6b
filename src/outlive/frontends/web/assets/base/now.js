// @ts-check
// The time that ages are counted to: it moves once a second, while the page is looked at.
import { signal } from "./ui.js";

const EACH_MS = 1000;

/** Milliseconds since 1970. */
export const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), EACH_MS);
