"""`outlive stats`: what the trees of live processes use, once or again and again."""

import contextlib
import time
from collections.abc import Mapping, Sequence

from outlive.cli.output import clear_screen, is_screen, redraw, show, show_json
from outlive.cli.parameters import (
    GROUP,
    OPTIONAL_NAMES,
    SERVER,
    TAGS,
    ServerFlags,
    UsageError,
    seconds,
    switch,
    takes,
)
from outlive.cli.processes import connected, every, find_process, parse_tags
from outlive.cli.tables import outcome, shown_command, shown_size, shown_table
from outlive.client import Client, Process, ProcessInfo, ProcessNotFound
from outlive.core.identity import short_name
from outlive.core.redactions import redacted_member
from outlive.core.values import dataclass, names_of

_HEAD = ("ID", "STATE", "CPU", "MEMORY", "PIDS", "PORTS", "WAITS FOR", "COMMAND")
_FIRST_S = 0.5  # between the two looks that the first CPU figures need


@dataclass(frozen=True, slots=True)
class Sample:
    """One process with its statistics, at a moment of the monotonic clock (seconds)."""

    info: ProcessInfo
    at: float


@dataclass(frozen=True, slots=True)
class Look:
    """A sample and the processor's share since the one before it: 100 is one processor; None where it is not
    known yet.
    """

    info: ProcessInfo
    cpu_percent: float | None

    @classmethod
    def between(cls, before: Sample | None, now: Sample) -> "Look":
        """Compare two samples. Pure."""
        old = None if before is None else before.info.stats
        new = now.info.stats
        if before is None or old is None or new is None or now.at <= before.at:
            return cls(now.info, None)
        # A descendant that ended takes its time along unless a process waited for it: never below 0.
        share = max(0.0, new.cpu_s - old.cpu_s) / (now.at - before.at)
        return cls(now.info, round(100 * share, 1))


@takes(
    OPTIONAL_NAMES,
    GROUP,
    TAGS,
    switch("--no-stream", about="Show them once."),
    seconds("--interval", about="Time between two looks.", to="interval_s", least=0.1, default=1.0),
    *SERVER,
)
def stats(
    *,
    names: list[str],
    group: str | None,
    tags: list[str],
    no_stream: bool,
    interval_s: float,
    server: ServerFlags,
) -> int:
    """Print what processes use, named or of a group and with tags (else all that live), once or until an
    interrupt.
    """
    with connected(server) as client:
        watch = _Watch(client, names, group=group, tags=tags)
        _show(watch, interval_s=interval_s, once=no_stream, as_json=server.as_json)
    return 0


def _show(watch: "_Watch", *, interval_s: float, once: bool, as_json: bool) -> None:
    """Print a table, or a line of JSON, once or every `interval_s`."""
    samples = watch.sample()
    time.sleep(min(_FIRST_S, interval_s))
    has_screen = not (once or as_json) and is_screen()
    if has_screen:
        clear_screen()
    while True:
        before, samples = samples, watch.sample()
        looks = [Look.between(before.get(name), sample) for name, sample in samples.items()]
        if as_json:
            show_json({"processes": [_as_json(look) for look in looks]})
        elif has_screen:
            redraw(shown_table(_rows(looks)))
        else:
            show(*shown_table(_rows(looks)))
        if once:
            return
        time.sleep(interval_s)


class _Watch:
    """Looks at the processes that are meant; new ones come in, ended ones go out unless they were named."""

    def __init__(
        self, client: Client, names: Sequence[str], *, group: str | None, tags: Sequence[str]
    ) -> None:
        self._client = client
        self._group = group
        self._tags = parse_tags(tags) or None
        if names and (self._group is not None or self._tags):
            raise UsageError("Name processes, or a --group and tags: not both.")
        self._named = [find_process(client, name) for name in names]
        self._known: dict[str, Process] = {}

    def sample(self) -> dict[str, Sample]:
        return {
            process.process_id: Sample(info, time.monotonic())
            for process in self._named or self._live()
            if (info := self._look(process)) is not None
        }

    def _live(self) -> list[Process]:
        found = every(self._client, active=True, group=self._group, tags=self._tags)
        known, self._known = self._known, {}
        for info in found:
            name = info.process_id
            with contextlib.suppress(ProcessNotFound):  # removed between two questions
                self._known[name] = known.get(name) or self._client.get(name)
        return [*self._known.values()]

    def _look(self, process: Process) -> ProcessInfo | None:
        try:
            return process.info(stats=True)
        except ProcessNotFound:
            if self._named:
                raise
            return None  # as above


def _rows(looks: Sequence[Look]) -> list[tuple[str, ...]]:
    return [_HEAD, *(_row(look) for look in looks)]


def _row(look: Look) -> tuple[str, ...]:
    info, stats = look.info, look.info.stats
    if stats is None or not stats.pids:
        return (short_name(info.process_id), outcome(info), "", "", "0", "", "", shown_command(info))
    return (
        short_name(info.process_id),
        outcome(info),
        "" if look.cpu_percent is None else f"{look.cpu_percent:.1f}%",
        shown_size(stats.memory_bytes),
        str(len(stats.pids)),
        ",".join(map(str, stats.ports)),
        stats.waiting or "",
        shown_command(info),
    )


def _as_json(look: Look) -> Mapping[str, object]:
    info, stats = look.info, look.info.stats
    shown: dict[str, object] = {
        "process_id": info.process_id,
        "state": info.state,
        "command": info.command,
        "group": info.group,
        "tags": dict(info.tags),
        "cpu_percent": look.cpu_percent,
        **redacted_member(info.redacted),
    }
    if stats is not None:
        shown |= {name: getattr(stats, name) for name in names_of(type(stats))}
    return shown
