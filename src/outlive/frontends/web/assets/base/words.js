// @ts-check
// How values are said: ages, sizes, states. Pure.

const UNITS = /** @type {const} */ ([
  ["d", 86400],
  ["h", 3600],
  ["m", 60],
]);

/**
 * @param {number} seconds
 * @returns {string} "42s", "5m 3s", "2d 4h": at most two units.
 */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [name, length] of UNITS) {
    if (whole >= length) {
      const [below, unit] = name === "d" ? ["h", 3600] : name === "h" ? ["m", 60] : ["s", 1];
      const rest = Math.floor((whole % length) / Number(unit));
      return rest ? `${Math.floor(whole / length)}${name} ${rest}${below}` : `${Math.floor(whole / length)}${name}`;
    }
  }
  return `${whole}s`;
}

/**
 * @param {number} count Bytes.
 * @returns {string} "512 B", "1.5 MiB".
 */
export function size(count) {
  if (count < 1024) return `${count} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = count / 1024;
  let place = 0;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[place]}`;
}

/** @typedef {{process_id: string, state: string, command: string, created_at: string, started_at: string | null, ended_at: string | null,
 *   exit_code: number | null, cause: string | null, name?: string, short_id?: string, project?: string, pid: number | null, waiting?: string, at_prompt?: boolean,
 *   waits_for: string | null, hint: string | null, descendants: number, stdout_bytes: number, stderr_bytes: number, stdio: string, stdin: string, session_over?: boolean,
 *   tags: Record<string, string>, group: string | null, cwd: string, completed: boolean, error: string | null, location?: {backend: string}, session_id?: string | null,
 *   started_by?: {door?: string, host?: string, call?: string, parent?: string}}} Process */

const LIVING = new Set(["queued", "starting", "running", "paused", "stopping"]);

/** @param {Process} process @returns {boolean} Whether it runs, or has left something running. */
export function lives(process) {
  return LIVING.has(process.state) || process.descendants > 0;
}

/** @param {Process} process @returns {boolean} Whether it waits for an answer: not a shell, for its next command. */
export function asks(process) {
  return Boolean(process.waiting) && process.waiting !== "no" && !process.at_prompt && lives(process);
}

// The words for one state, at all doors for people: the command line's are in cli/tables.py.
const CAUSES = /** @type {Record<string, string>} */ ({
  cancel: "stopped", shutdown: "stopped", timeout: "timed out", output_limit: "killed (over its output limit)",
  oom: "killed (out of memory)", approval_denied: "denied", approval_expired: "not approved in time",
});
// By their numbers on Linux, and those of a program's own fault (signal(7)).
const SIGNALS = " HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS".split(" ");
const OWN_FAULTS = ["ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "XCPU", "XFSZ", "SYS"];

/** @param {Process} process @returns {string} What its state is called in a list. */
export function stateOf(process) {
  if (process.waits_for === "approval") return "needs approval";
  if (asks(process)) return `asks for ${process.waiting}`;
  if (process.cause !== null && process.ended_at !== null) return CAUSES[process.cause] ?? process.cause;
  if (process.state === "exited") return process.exit_code === 0 ? "finished" : `failed (exit ${process.exit_code})`;
  const name = SIGNALS[-(process.exit_code ?? 0)] ?? `signal ${-(process.exit_code ?? 0)}`;
  if (process.state === "signaled") return `${OWN_FAULTS.includes(name) ? "crashed" : "killed"} (${name})`;
  return process.state.replaceAll("_", " ");
}

/** @param {Process} process @returns {"live" | "held" | "good" | "bad" | "over"} The colour of its state. */
export function toneOf(process) {
  if (["queued", "paused", "stopping"].includes(process.state) || asks(process)) return "held";
  if (LIVING.has(process.state)) return "live";
  if (["cancel", "shutdown", "approval_denied", "approval_expired"].includes(process.cause ?? "")) return "over";
  return process.state === "exited" && process.exit_code === 0 && process.cause === null ? "good" : "bad";
}

/**
 * @param {Process} process
 * @param {number} now Milliseconds since 1970.
 * @returns {string} How long it has run, or ran.
 */
export function timeOf(process, now) {
  if (process.started_at === null) return "";
  const end = process.ended_at === null ? now : Date.parse(process.ended_at);
  return duration((end - Date.parse(process.started_at)) / 1000);
}

// Characters that draw nothing, draw over others or turn their order around, and spaces that only look like one.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

/**
 * Return a text in which every character is seen, so that what is approved is what is read.
 * @param {string} text
 * @param {{lines?: boolean}} [options] `lines`: line breaks and tabs are what they are.
 */
export function spelled(text, { lines = false } = {}) {
  return text.replace(UNSEEN, (one) =>
    lines && (one === "\n" || one === "\t") ? one : `\\u{${(one.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

/** @param {string[]} words @returns {string} Words of a command, each in quotes: where one ends is seen, too. */
export function quoted(words) {
  return words.map((word) => `'${spelled(word).replaceAll("'", "\\'")}'`).join(" ");
}
