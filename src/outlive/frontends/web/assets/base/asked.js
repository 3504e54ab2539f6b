// @ts-check
// What a part of the page asks for while it is looked at: again when the address means something else, after a lost connection, and now and then.
import { repeated } from "./controls.js";
import { link } from "./rpc.js";
import { effect, signal } from "./ui.js";

/**
 * @template T
 * @param {() => string} key What has to be asked for: "" for nothing, because it is not looked at.
 * @param {() => Promise<T>} ask
 * @param {number} eachMs Between two questions; nothing is asked by a hidden tab.
 * @returns {{value: {key: string, found: T} | null}} The last answer, a signal.
 */
export function asked(key, ask, eachMs) {
  const answer = signal(/** @type {{key: string, found: T} | null} */ (null));
  let last = "";
  let isAsking = false;
  const say = repeated();
  const look = async () => {
    if (isAsking || document.hidden) return;
    isAsking = true;
    const wanted = last;
    await say(async () => {
      const found = await ask();
      if (wanted === last) answer.value = { key: wanted, found };
    });
    isAsking = false;
    if (wanted !== last && last) void look();
  };
  effect(() => {
    const wanted = link.value === "open" ? key() : "";
    if (wanted === last) return;
    last = wanted;
    if (wanted) void look();
  });
  setInterval(() => last && void look(), eachMs);
  return answer;
}
