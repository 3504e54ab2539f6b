"""What a measurement is: rows of values, targets judged by their medians, sections that hold both."""

import operator
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

T = TypeVar("T")


class Unavailable(Exception):
    """Something this measurement needs is not on this machine; the message says what."""


@dataclass(frozen=True, slots=True)
class Target:
    """One promise about speed or size: a measured value, a direction and a limit."""

    sentence: str
    sign: Literal["<=", ">="]
    limit: float
    unit: str

    def is_met(self, value: float) -> bool:
        """Whether `value` keeps the promise."""
        return value <= self.limit if self.sign == "<=" else value >= self.limit


TARGETS = {
    "lines_naive": Target("lines against the naive server", ">=", 35, "x"),
    "lines_websocketd": Target("lines against websocketd", ">=", 35, "x"),
    "lines_paced": Target("lines against websocketd, both to a kind client", ">=", 20, "x"),
    "binary_splice": Target("binary against splice into a file", ">=", 0.83, "x"),
    "chunk_splice": Target("chunk against splice, log on", ">=", 0.71, "x"),
    "terminal_naive": Target("a terminal against a pty in the server's own process", ">=", 1, "x"),
    "terminal_key": Target("a key's echo, terminal over WebSocket: p50", "<=", 1, "ms"),
    "client_plain": Target("our Python client against a plain reader of the naive server", ">=", 20, "x"),
    "stdin_64k": Target("input in pieces of 64 KiB by our Python client against a pipe", ">=", 0.5, "x"),
    "stdin_1m": Target("input in pieces of 1 MiB by our Python client against a pipe", ">=", 0.5, "x"),
    "streams10_p50": Target("10 streams x 1000 lines/s: p50", "<=", 0.4, "ms"),
    "streams10_p99": Target("10 streams x 1000 lines/s: p99", "<=", 2, "ms"),
    "streams50_p50": Target("50 streams x 1000 lines/s: p50", "<=", 0.6, "ms"),
    "streams50_p99": Target("50 streams x 1000 lines/s: p99", "<=", 15, "ms"),
    "streams50_late": Target("50 streams x 1000 lines/s: p99 against websocketd", "<=", 2, "x"),
    "streams50_cpu": Target(
        "50 streams x 1000 lines/s: processor time of a line against websocketd", "<=", 0.85, "x"
    ),
    "streams100_naive": Target("100 streams: p50 against the naive server", "<=", 0.1, "x"),
    "single_p50": Target("one stream: p50", "<=", 0.3, "ms"),
    "true_spawn": Target("execute -> completed of /bin/true against posix_spawn in C", "<=", 2.3, "x"),
    "echo_asyncio": Target("echo hi, 50 at a time, against asyncio in-process", ">=", 1, "x"),
    "mcp_echo": Target("echo hi by MCP over HTTP, p50 against the faster SDK's server", "<=", 1.5, "x"),
    "listening": Target("listening after start", "<=", 0.4, "s"),
    "first_run": Target(
        "the first `outlive run -- echo hi`: processor time of all processes", "<=", 1000, "ms"
    ),
    "unread_memory": Target("1 GB unread by a stopped client: server memory", "<=", 8, "MB more"),
    "unread_time": Target("1 GB unread: the process against `| cat`", "<=", 1.5, "x"),
    "unread_exact": Target("1 GB unread: drained streams that are byte-exact", ">=", 100, "%"),
    "floods_health": Target(
        "health check while somebody floods the server: p99, the worst flood", "<=", 250, "ms"
    ),
    "floods_memory": Target(
        "the server's memory while somebody floods it, the worst flood", "<=", 400, "MB more"
    ),
    "docker_start": Target("/usr/bin/true in a warm container against a local start", "<=", 4, "x"),
    "docker_exec": Target("docker exec against a start in a warm container", ">=", 10, "x"),
    "docker_lines": Target("seq followed to its end, in a container against local", "<=", 2, "x"),
    "cli_help": Target("outlive --help against `python -c pass`", "<=", 4, "x"),
    "cli_ps": Target("outlive ps against `python -c pass`", "<=", 7, "x"),
    "cli_tail": Target("logs --tail 100 of 1 GB", "<=", 0.1, "s"),
    "cli_grep_first": Target("logs --grep over 1 GB, found in the first line", "<=", 1, "s"),
    "cli_grep_last": Target("logs --grep over 1 GB, found in the last line", "<=", 1, "s"),
    "cli_grep_memory": Target("logs --grep over 1 GB: memory", "<=", 50, "MB"),
    "agents_tokens": Target(
        "21 tasks of an agent over lean: tokens of calls and answers", "<=", 12_000, "tokens"
    ),
    "agents_calls": Target("21 tasks of an agent over lean: calls", "<=", 50, "calls"),
    "agents_done": Target("21 tasks of an agent over lean: done", ">=", 100, "% done"),
    "agents_held_out": Target("held-out tasks of an agent over lean: done", ">=", 100, "% done"),
    "agents_left": Target("21 tasks of an agent over lean: left running", "<=", 0, "left behind"),
    "agents_schema": Target("the lean tools' schemas", "<=", 760, "tokens"),
    "web_key": Target("a key in the page's terminal until it is seen, above a bare pty: p50", "<=", 10, "ms"),
    "web_flood": Target("a flood in the page's terminal against xterm.js on a bare pty", "<=", 1.5, "x"),
    "web_stop": Target("Ctrl-C in a flood until the prompt is seen", "<=", 150, "ms"),
    "search_first": Target("a word that is everywhere, in 10 GB of output: the first match", "<=", 1, "s"),
    "search_index": Target("the indexes of a search", "<=", 15, "% of the output"),
    "search_memory": Target("the server's memory in a search", "<=", 100, "MB"),
    "fleet_start": Target("a command placed on a node and started there, warm: p50", "<=", 10, "ms"),
    "fleet_cpu": Target("200 starts on a node against starts here: processor time", "<=", 2.2, "x"),
    "fleet_memory": Target("the server's memory for a process on a node", "<=", 20, "KB"),
    "fleet_files": Target("the server's descriptors for a process on a node", "<=", 1, "more"),
    "live_keeper": Target("1000 live processes: keeper and shims", "<=", 500, "KB a process"),
    "live_server": Target("1000 live processes: server", "<=", 10, "KB a process"),
    "live_idle": Target(
        "100 live processes that are silent: all of ours together", "<=", 1, "switches a second"
    ),
    "live_threads": Target("1000 live processes: threads of the server", "<=", 0, "more"),
}


@dataclass(slots=True)
class Row:
    """The values of one contestant, in the order they were measured."""

    label: str
    unit: str
    values: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        """The median of the values; nan without any."""
        return statistics.median(self.values) if self.values else float("nan")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One target and the value that was measured for it."""

    key: str
    value: float

    @property
    def target(self) -> Target:
        """The target this is about."""
        return TARGETS[self.key]

    @property
    def is_met(self) -> bool:
        """Whether the target was met."""
        return self.target.is_met(self.value)


@dataclass(slots=True)
class Section:
    """One table: rows in one or more units, verdicts, and what was left out and why.

    `baseline` is the label that ratios refer to; rows of another unit than its show none. `details` are what
    the rows sum up, as values of JSON: they are saved, and not shown.
    """

    name: str
    title: str
    baseline: str = ""
    rows: list[Row] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: list[dict[str, object]] = field(default_factory=list)

    def row(self, label: str, unit: str) -> Row:
        """The row of this label and unit, made when it is not there yet."""
        for row in self.rows:
            if (row.label, row.unit) == (label, unit):
                return row
        self.rows.append(Row(label, unit))
        return self.rows[-1]

    def add(self, label: str, unit: str, *, value: float, note: str = "") -> None:
        """Append one measured value to its row."""
        row = self.row(label, unit)
        row.values.append(value)
        row.note = note or row.note

    def judge(self, key: str, label: str, *, unit: str, against: str | None = None) -> None:
        """Judge a target by the median of a row, or by its ratio to the row `against`.

        The ratio is the median of the rounds', where both were measured in each. A row that was not measured
        leaves the target unjudged.
        """
        value = self.row_median(label, unit)
        if against is not None and value is not None:
            base = self.row_median(against, unit)
            value = value / base if base else None
            if base:
                ours, theirs = (self.row(name, unit).values for name in (label, against))
                if len(ours) == len(theirs):
                    value = statistics.median(map(operator.truediv, ours, theirs))
        if value is not None:
            self.verdicts.append(Verdict(key, value))

    def row_median(self, label: str, unit: str) -> float | None:
        """The median of a row; None when nothing was measured."""
        for row in self.rows:
            if (row.label, row.unit) == (label, unit) and row.values:
                return row.median
        return None


def alternate(lanes: Sequence[T], rounds: int) -> Iterator[T]:
    """Every lane once a round, in an order that turns around each time: drift hits all alike."""
    for number in range(rounds):
        yield from lanes if number % 2 == 0 else reversed(lanes)
