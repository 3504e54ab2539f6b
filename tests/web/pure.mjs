// What the page decides without a browser: words, colours, filters, addresses. Run by test_pure.py in plain Node.
import assert from "node:assert/strict";
import test from "node:test";

import { formatPlace, parsePlace } from "./page/base/address.js";
import { linesOf, piecesOf, spansOf } from "./page/log/log_model.js";
import { filtered, offered, tagChanges, tagText } from "./page/list/list_model.js";
import { looked, shareText, sparkline } from "./page/list/usage_model.js";
import { LineCutter, firstDifference, withoutNumbers } from "./page/compare/compare_model.js";
import { leftBehind, startedBy, treeOf } from "./page/list/tree_model.js";
import { drawn } from "./page/base/rows.js";
import { addressOf, pieces as piecesOfMatch, plain, requestOf } from "./page/search/search.js";
import { duration, quoted, size, spelled, stateOf, toneOf } from "./page/base/words.js";

const bytes = (text) => new TextEncoder().encode(text);
const process = (members) => ({
  process_id: "01k", state: "running", command: "make all", created_at: "", started_at: null, ended_at: null, exit_code: null, cause: null,
  pid: 7, waits_for: null, hint: null, descendants: 0, cwd: "/srv", tags: {}, group: null, ...members,
});
/** Pieces as they stand one behind the other in a log. */
function pieces(...parts) {
  let offset = 0;
  return parts.map(([stream, data]) => {
    const one = { offset, length: data.length, stream, bytes: data };
    offset += data.length;
    return one;
  });
}
const text = (line) => line.spans.map((one) => one.text).join("");

test("ages and sizes have at most two units", () => {
  assert.deepEqual([0, 59.9, 60, 3661, 90_000, 172_800].map(duration), ["0s", "59s", "1m", "1h 1m", "1d 1h", "2d"]);
  assert.deepEqual([0, 1023, 1024, 15_000, 5 * 1024 ** 3].map(size), ["0 B", "1023 B", "1.0 KiB", "15 KiB", "5.0 GiB"]);
});

test("no character of a command hides, draws over another one, or turns the order around", () => {
  assert.equal(spelled("a\u202eb\u200bc\u00a0d\x1b[2J\u2028"), "a\\u{202e}b\\u{200b}c\\u{a0}d\\u{1b}[2J\\u{2028}");
  assert.equal(spelled("plain ü 漢 words"), "plain ü 漢 words");
  assert.equal(spelled("a\n\tb\r", { lines: true }), "a\n\tb\\u{d}");
  assert.equal(quoted(["a b", "c'd", ""]), "'a b' 'c\\'d' ''");
});

test("a state is said in the words of every door for people", () => {
  assert.equal(stateOf(process({})), "running");
  assert.equal(stateOf(process({ state: "exited", exit_code: 0 })), "finished");
  assert.equal(stateOf(process({ state: "exited", exit_code: 3 })), "failed (exit 3)");
  assert.equal(stateOf(process({ state: "signaled", exit_code: -9 })), "killed (KILL)");
  assert.equal(stateOf(process({ state: "signaled", exit_code: -11, ended_at: "x" })), "crashed (SEGV)");
  const stopped = process({ state: "signaled", exit_code: -15, cause: "cancel", ended_at: "x" });
  assert.deepEqual([stateOf(stopped), toneOf(stopped)], ["stopped", "over"]);
  assert.equal(stateOf(process({ state: "queued", waits_for: "approval" })), "needs approval");
  assert.equal(stateOf(process({ waiting: "input" })), "asks for input");
  assert.equal(stateOf(process({ waiting: "input", at_prompt: true })), "running");
});

test("a character that a page of the log cuts is whole in its line", () => {
  const [one, two] = [bytes("gr\u00fc\u00df").slice(0, 3), bytes("gr\u00fc\u00df").slice(3)];
  const lines = linesOf(pieces(["stdout", one], ["stdout", two], ["stdout", bytes(" Gott\nnext")]));
  assert.deepEqual(lines.map(text), ["gr\u00fc\u00df Gott", "next"]);
  assert.deepEqual(lines.map((line) => line.offset), [0, 12]);
});

test("lines of both streams stay apart, and come in the order in which they were finished", () => {
  const lines = linesOf(pieces(["stdout", bytes("be")], ["stderr", bytes("wrong\n")], ["stdout", bytes("gun\nend")]));
  assert.deepEqual(lines.map((line) => [line.stream, text(line)]), [["stderr", "wrong"], ["stdout", "begun"], ["stdout", "end"]]);
});

test("what is no longer kept is a line that says so, and positions go on behind it", () => {
  const page = [{ type: "stdout", data: btoa("a\n"), end: 2 }, { type: "stdout", gap: true, from: 2, to: 1002, end: 1002 }, { type: "stdout", data: btoa("b\n"), end: 1004 }];
  const found = piecesOf(page, 10);
  assert.deepEqual(found.map((one) => one.offset), [10, 12, 1012]);
  const lines = linesOf(found);
  assert.deepEqual([lines.length, lines[1].isGap, text(lines[2])], [3, true, "b"]);
});

test("colours are classes, and last until they are ended; other sequences draw nothing", () => {
  const classes = new Set();
  const spans = spansOf("\x1b[1;31mred\x1b[0m plain \x1b[38;5;2mgreen\x1b[39m\x1b[2K\x1b]0;title\x07end", classes);
  assert.deepEqual(spans, [
    { text: "red", classes: "bold fg-red" }, { text: " plain ", classes: "" }, { text: "green", classes: "fg-green" }, { text: "end", classes: "" },
  ]);
  assert.equal(classes.size, 0);
  spansOf("\x1b[4mon", classes);
  assert.deepEqual([...classes], ["underlined"]);
  assert.deepEqual(spansOf("\x1b[?2004h\x1b[>4;31mshop$ \x1b[?25l", new Set()), [{ text: "shop$ ", classes: "" }]);
  assert.deepEqual(spansOf("10%\r50%\r100%\r", new Set()).map((one) => one.text), ["100%"]);
  assert.equal(spansOf("x".repeat(9000), new Set()).at(-1).classes, "cut");
  assert.deepEqual(spansOf("\x1b[38;2;1;2;3mtrue\x1b[48;2;9;9;9;1mbold", new Set()).map((one) => one.classes), ["", "bold"]);
});

test("no bytes are too odd for a line", () => {
  for (let seed = 1; seed < 3000; seed += 1) {
    const odd = Uint8Array.from({ length: seed % 40 }, (_, place) => (seed * 31 + place * place * 17) % 256);
    const shown = linesOf(pieces(["stdout", odd], ["stderr", odd])).map(text).join("");
    assert.doesNotMatch(shown, /[\x00-\x08\x0b-\x1f\x7f]/);
  }
});

test("an address says the same when it is read and written again", () => {
  for (const hash of ["#/list", "#/list?q=a+b%3Dc&state=live", "#/log/01k?at=7", "#/log/a%2Fb", "#/compare/01a/01b?numbers=same"]) assert.equal(formatPlace(parsePlace(hash)), hash);
  assert.deepEqual(parsePlace(""), { view: "list", id: "", query: {} });
  assert.equal(parsePlace("#/log/%E0%A4%A").id, "%E0%A4%A");
  assert.equal(formatPlace({ view: "list", id: "", query: { q: "" } }), "#/list");
});

test("a filter's words all have to be there, in whichever of a process's names", () => {
  const all = [
    process({ process_id: "01a", name: "web", tags: { job: "nightly" } }),
    process({ process_id: "01b", command: "npm run web", project: "/srv/shop", state: "exited", exit_code: 1 }),
    process({ process_id: "01c", state: "exited", exit_code: 0, descendants: 2 }),
  ];
  const ids = (filter) => filtered(all, filter).found.map((one) => one.process_id);
  assert.deepEqual(ids({}), ["01c", "01b", "01a"], "newest first");
  assert.deepEqual(ids({ q: "WEB" }), ["01b", "01a"]);
  assert.deepEqual(ids({ q: "web job=night" }), ["01a"]);
  assert.deepEqual(ids({ state: "live" }), ["01c", "01a"], "what has left something running lives");
  assert.deepEqual(ids({ state: "failed (exit 1)" }), ["01b"]);
  assert.deepEqual(ids({ project: "/srv/shop" }), ["01b"]);
});

test("a facet counts what it would show, and the order is the address's", () => {
  const ended = (id, exit_code, members) => process({ process_id: id, state: exit_code < 0 ? "signaled" : "exited", exit_code, ...members });
  const all = [
    process({ process_id: "01a", name: "b10", project: "/srv/shop", tags: { job: "x" }, location: { backend: "docker" } }),
    ended("01b", 3, { name: "b9", project: "/srv/shop", started_at: "2026-01-01T00:00:00Z", ended_at: "2026-01-01T00:01:00Z" }),
    ended("01c", 0, { name: "a", started_at: "2026-01-01T00:00:00Z", ended_at: "2026-01-01T00:00:01Z" }),
    ended("01d", -9, { name: "c", project: "/srv/shop" }),
  ];
  const { found, counts } = filtered(all, { state: "ended", project: "/srv/shop" });
  assert.deepEqual(found.map((one) => one.name), ["c", "b9"]);
  assert.deepEqual([counts.state.get("live"), counts.state.get("failed (exit 3)"), counts.project.get("/srv/shop")], [1, 1, 2]);
  assert.deepEqual([...counts.exit], [["failed", 2], ["3", 1], ["-9", 1]]);
  const names = (filter, memoryOf) => filtered(all, filter, memoryOf).found.map((one) => one.name).join(" ");
  assert.deepEqual([names({ sort: "name" }), names({ sort: "oldest" })], ["a b9 b10 c", "b10 b9 a c"]);
  assert.deepEqual([names({ sort: "memory" }, (one) => (one.name === "a" ? 7 : 0)), names({ sort: "longest", state: "ended" })], ["a c b9 b10", "b9 a c"]);
  assert.deepEqual([names({ exit: "failed" }), names({ exit: "-9" }), names({ place: "docker" }), names({ tag: "job=x" })], ["c b9", "c", "b10", "b10"]);
  const asked = filtered([process({ started_by: { door: "mcp", host: "codex" } }), process({ process_id: "01z", started_by: { door: "rest" } })], { host: "codex" });
  assert.deepEqual([asked.found.length, [...asked.counts.host]], [1, [["codex", 1], ["REST", 1]]]);
  assert.deepEqual(offered(new Map([["b", 1], ["a", 1], ["c", 5]]), "gone"), [["gone", 0], ["c", 5], ["a", 1], ["b", 1]]);
});

test("a tree has projects, what asked there, and below a process what it has started", () => {
  const all = [
    process({ process_id: "01a", name: "agent", project: "/shop", session_id: "mcp-0123456789", started_by: { door: "mcp", host: "codex", call: "7" } }),
    process({ process_id: "01b", name: "child", started_by: { door: "jsonrpc", parent: "01a" } }),
    process({ process_id: "01c", name: "other", project: "/shop", session_id: "mcp-fedcba9876", started_by: { door: "mcp", host: "codex" } }),
    process({ process_id: "01d", name: "lost", started_by: { door: "jsonrpc", parent: "01gone" }, state: "exited", exit_code: 0, ended_at: "2026" }),
  ];
  const shown = (shut = []) => treeOf(all, new Set(shut)).map((row) => `${"-".repeat(row.depth)}${row.kind === "group" ? `${row.text} ${row.count}/${row.living}` : row.process.name}`);
  assert.deepEqual(shown(), [
    "/shop 2/2", "-codex · session 01234567 1/1", "--agent", "---child", "-codex · session fedcba98 1/1", "--other", "No project 1/0", "-Command line and programs 1/0", "--lost",
  ]);
  assert.deepEqual(shown(["p:/shop", "p:"]), ["/shop 2/2", "No project 1/0"]);
  assert.deepEqual(shown(["01a"]).slice(2, 4), ["--agent", "-codex · session fedcba98 1/1"]);
  assert.equal(startedBy(process({})), "Not known");
});

test("what its starter has left, and what has left something, is marked", () => {
  const parents = { ended: process({ name: "sh", state: "exited", exit_code: 0, ended_at: "2026" }), alive: process({}) };
  const mark = (members) => leftBehind(process({ ended_at: null, ...members }), (id) => parents[id]);
  assert.equal(mark({ started_by: { parent: "ended" } }), "left behind by sh");
  assert.equal(mark({ started_by: { parent: "removed" } }), "left behind");
  assert.equal(mark({ started_by: { door: "mcp" }, session_over: true }), "left behind by its session");
  assert.equal(mark({ session_over: true, ended_at: "2026", state: "exited" }), "");
  assert.deepEqual([mark({ started_by: { parent: "alive" } }), mark({}), mark({ started_by: { parent: "ended" }, ended_at: "2026", state: "exited" })], ["", "", ""]);
  assert.equal(mark({ ended_at: "2026", state: "exited", descendants: 2 }), "left 2 running");
});

test("looks become shares of a processor, and a hole in them begins anew", () => {
  const look = (cpu, memory_bytes = 10) => ({ process_id: "01a", processes: 1, cpu, memory_bytes, ports: [80] });
  let usage = looked(undefined, look(5), 1000);
  assert.deepEqual([usage.shares, usage.memory], [[], [10]]);
  usage = looked(usage, look(6, 20), 3000);
  assert.deepEqual([usage.shares, usage.memory, shareText(usage.shares)], [[0.5], [10, 20], "50 %"]);
  assert.equal(looked(usage, look(9), 3000), usage, "the same moment again says nothing");
  usage = looked(usage, look(4), 5000);
  assert.deepEqual([usage.shares, shareText([0.004]), shareText([])], [[0.5, 0], "<1 %", ""]);
  assert.deepEqual(looked(usage, look(40), 60_000).shares, []);
  for (let at = 7000; at < 300_000; at += 2000) usage = looked(usage, look(at / 1000), at);
  assert.equal(usage.shares.length, 60);
  assert.equal(sparkline([0, 1, 0.5], { width: 59, height: 12, most: 2 }), "57.0,11.0 58.0,6.0 59.0,8.5");
});

test("two outputs differ first at a line, wherever their pages were cut", async () => {
  async function* read(parts) {
    const cutter = new LineCutter();
    for (const part of parts) yield cutter.take(bytes(part));
    yield cutter.finish();
  }
  const differ = (one, other, same) => firstDifference(read(one), read(other), same);
  assert.equal(await differ(["a\nb", "c\nd"], ["a", "\nbc\n", "d"]), null);
  assert.deepEqual(await differ(["a\nbx\n"], ["a\nb", "y\n"]), { line: 2, one: "bx", other: "by" });
  assert.deepEqual(await differ(["a\nb\n"], ["a\n"]), { line: 2, one: "b", other: null });
  assert.equal(await differ(["took 12.3s\n"], ["took 4.56s\n"], withoutNumbers), null);
  assert.deepEqual(await differ(["x".repeat(600_000), "y\nz\n"], ["x".repeat(600_000) + "y\nw\n"]), { line: 2, one: "z", other: "w" });
  assert.equal((await differ(["x".repeat(600_000)], ["x".repeat(599_999)])).line, 1);
  assert.equal(await differ([], []), null);
});

test("tags that are typed change what is new, and take away what is gone", () => {
  const tags = { job: "build", draft: "" };
  assert.equal(tagText(tags), "job=build, draft");
  assert.deepEqual(tagChanges(tags, "job=a=b , new"), { job: "a=b", draft: null, new: "" });
  assert.deepEqual(tagChanges(tags, tagText(tags)), tags);
});

test("only rows in sight are drawn, and some beside them", () => {
  assert.deepEqual(drawn({ count: 5000, height: 50, top: 0, view: 500 }), { first: 0, last: 18 });
  assert.deepEqual(drawn({ count: 5000, height: 50, top: 100_000, view: 500 }), { first: 1992, last: 2018 });
  assert.deepEqual(drawn({ count: 3, height: 50, top: 9000, view: 500 }), { first: 0, last: 3 });
  assert.deepEqual(drawn({ count: 0, height: 50, top: 0, view: 500 }), { first: 0, last: 0 });
});

test("a search's address says what is asked for, and a match leads to its line", () => {
  assert.equal(requestOf({}), null);
  assert.deepEqual(requestOf({ q: "a.b", regex: "1" }), { text: "a.b", regex: true, ignore_case: true, project: null, context: 2, limit: 100 });
  assert.equal(requestOf({ q: "A", case: "1", project: "/srv" }).ignore_case, false);
  const match = { process_id: "01k", type: "stdout", line: "gr\u00fc\u00df needle end", line_from: 90, offset: 90, end: 108, hit: 97, hit_end: 103, at: 1097, before: [], after: [] };
  assert.equal(addressOf(match), "#/log/01k?at=1090");
  assert.equal(addressOf({ ...match, hit: 90_097, at: 91_097 }), "#/log/01k?at=91097");
  assert.deepEqual(piecesOfMatch(match), ["gr\u00fc\u00df ", "needle", " end"]);
  assert.equal(plain("\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07end"), "red end");
});
