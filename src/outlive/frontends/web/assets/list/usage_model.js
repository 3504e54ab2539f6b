// @ts-check
// What processes use, over the last minutes: from looks at the totals to shares and lines. Pure.

/** @typedef {{process_id: string, processes: number, cpu: number, memory_bytes: number, ports: number[]}} Look */
/** @typedef {{at: number, cpu: number, shares: number[], memory: number[], ports: number[]}} Usage `at` in milliseconds and `cpu` in seconds,
 *   of the last look; `shares` of one processor, 0.5 for a half, and bytes of memory, oldest first. */

export const KEPT = 60; // looks: two minutes at one each two seconds
const LONGEST_GAP_MS = 10_000; // what was not looked at for longer begins anew: a line over a hole would lie

/**
 * Return what is known of a process after one more look.
 * @param {Usage | undefined} known
 * @param {Look} look
 * @param {number} at Milliseconds since 1970, by the server's clock.
 * @returns {Usage}
 */
export function looked(known, look, at) {
  const passed = known ? at - known.at : Infinity;
  if (known && passed <= 0) return known;
  const isNew = !known || passed > LONGEST_GAP_MS;
  // What a process of the tree has used that is gone is counted no more: less than before is nothing, not a negative share.
  const share = isNew ? 0 : Math.max(0, ((look.cpu - known.cpu) * 1000) / passed);
  return {
    at,
    cpu: look.cpu,
    shares: isNew ? [] : [...known.shares, share].slice(-KEPT),
    memory: isNew ? [look.memory_bytes] : [...known.memory, look.memory_bytes].slice(-KEPT),
    ports: look.ports,
  };
}

/**
 * Return the points of a line in a box, the newest at its right edge.
 * @param {number[]} values
 * @param {{width: number, height: number, most?: number}} box `most`: what reaches its top; the largest value, if that is more.
 * @returns {string} As SVG's `points`.
 */
export function sparkline(values, { width, height, most = 0 }) {
  const top = Math.max(most, ...values) || 1;
  const step = width / (KEPT - 1);
  const first = width - (values.length - 1) * step;
  const room = height - 2; // a line is drawn around its middle: at the edges half of it would be cut off
  return values.map((value, place) => `${(first + place * step).toFixed(1)},${(height - 1 - (value / top) * room).toFixed(1)}`).join(" ");
}

/** @param {number[]} shares @returns {string} The newest one: "12 %", "150 %" for one and a half processors. */
export function shareText(shares) {
  const share = shares.at(-1);
  return share === undefined ? "" : `${share > 0 && share < 0.01 ? "<1" : Math.round(share * 100)} %`;
}
