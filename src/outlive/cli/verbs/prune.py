"""`outlive rm` and `outlive prune`: records and output of processes that have ended, removed by name or by
condition.

`prune` asks the server for everything that has ended, and the file system how much that takes; the server
removes.
"""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from outlive.cli.output import agreed, say, show, show_error, show_json
from outlive.cli.parameters import (
    GROUP,
    OPTIONAL_NAMES,
    SERVER,
    TAGS,
    ServerFlags,
    option,
    options,
    switch,
    takes,
)
from outlive.cli.processes import Selection, act, connected, every, parse_tags, say_degraded
from outlive.cli.progress import progress
from outlive.cli.tables import age, outcome, shown_command, shown_size, shown_table
from outlive.cli.verbs.df import retention_lines
from outlive.client import Client, InvalidRequest, OutliveError, ProcessInfo, ProcessNotFound
from outlive.config.options import parse_seconds
from outlive.core.identity import short_name
from outlive.core.layout import Layout
from outlive.core.lifecycle import ENDED
from outlive.core.values import dataclass
from outlive.discovery.state_folder import layout_of

_FAILED = 1
_STATES = tuple(sorted(state.value for state in ENDED))
_SHOWN = 20  # of what would go; the rest is counted
_BLOCK = 512  # st_blocks counts these, whatever the file system's are (stat(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Which ended processes go: all that meet every condition; None is no condition."""

    older_than_s: float | None
    states: frozenset[str] | None
    group: str | None
    tags: Mapping[str, str] | None

    @classmethod
    def parse(
        cls, *, older_than: str | None, states: Sequence[str], group: str | None, tags: Sequence[str]
    ) -> Self:
        """Read what the command line said.

        Raises:
            InvalidRequest: A time makes no sense.
        """
        try:
            older_than_s = None if older_than is None else parse_seconds(older_than)
        except ValueError as error:
            text = f"--older-than {older_than!r}: {error}."
            raise InvalidRequest("invalid_params", text, hint="For example 30m, 12h or 7d.") from None
        return cls(
            older_than_s=older_than_s,
            states=frozenset(states) or None,
            group=group,
            tags=parse_tags(tags) or None,
        )

    def takes(self, info: ProcessInfo, now: datetime) -> bool:
        """Tell whether a process goes. Pure."""
        if not info.is_closed or info.descendants:
            return False  # something that it has started still runs
        if self.states is not None and info.state not in self.states:
            return False
        ended = info.ended_at or info.created_at
        return self.older_than_s is None or now - ended >= timedelta(seconds=self.older_than_s)


@takes(
    option("--older-than", metavar="TIME", about="Only what ended so long ago: 30m, 12h, 7d."),
    options("--state", metavar="|".join(_STATES), about="Only what ended like this.", to="states"),
    GROUP,
    TAGS,
    switch(
        "--dry-run", about="Say what would go, and what the server will remove by itself; remove nothing."
    ),
    switch("--yes", "-y", about="Do not ask."),
    *SERVER,
)
def prune(
    *,
    older_than: str | None,
    states: list[str],
    group: str | None,
    tags: list[str],
    dry_run: bool,
    yes: bool,
    server: ServerFlags,
) -> int:
    """Remove what has ended, after a question on a terminal.

    Return 1 where it was refused, or some of it stayed.
    """
    wanted = Pruning.parse(older_than=older_than, states=states, group=group, tags=tags)
    layout, now = layout_of(server.state_dir), datetime.now(UTC)
    removed: list[_Doomed] = []
    with connected(server) as client:
        doomed = _find_doomed(client, layout, wanted, now)
        degraded = client.degraded()
        retention = client.server.disk()["retention"] if dry_run else []
        if not server.as_json:
            if degraded is not None:
                say_degraded(degraded)
            _show_doomed(doomed, now)
            if dry_run:
                show("", *retention_lines(retention, now))
        if doomed and not dry_run:
            if not yes and not _agreed(doomed):
                return _FAILED
            removed = _remove_all(client, doomed)
    if server.as_json:
        document = {
            "processes": [{"process_id": one.info.process_id, "bytes": one.size} for one in doomed],
            "bytes": sum(one.size for one in doomed),
            "removed": [one.info.process_id for one in removed],
            "dry_run": dry_run,
            **({} if degraded is None else {"degraded": degraded}),
            **({"retention": retention} if dry_run else {}),
        }
        show_json(document)
    elif removed:
        say(f"{_count(removed)} removed, {_size(removed)} free.")
    return 0 if dry_run or len(removed) == len(doomed) else _FAILED


@takes(
    OPTIONAL_NAMES,
    switch("--force", "-f", about="End what still runs (KILL at once), too."),
    GROUP,
    TAGS,
    *SERVER,
)
def rm(
    *,
    names: list[str],
    force: bool,
    group: str | None,
    tags: list[str],
    server: ServerFlags,
) -> int:
    """Remove the processes of a selection."""
    selection = Selection(names=names, group=group, tags=tags, active=None if force else False)
    with connected(server) as client:
        return act(
            client,
            selection,
            lambda process: client.remove(process.process_id, force=force),
            said="is removed",
            as_json=server.as_json,
        )


@dataclass(frozen=True, slots=True)
class _Doomed:
    info: ProcessInfo
    size: int  # bytes on disk


def _find_doomed(client: Client, layout: Layout, wanted: Pruning, now: datetime) -> list[_Doomed]:
    doomed = []
    with progress("looking") as one_more:
        for info in every(client, active=False, group=wanted.group, tags=wanted.tags):
            if wanted.takes(info, now):
                doomed.append(_Doomed(info, _disk_bytes(layout.process(info.process_id))))
            one_more()
    return doomed


def _remove_all(client: Client, doomed: list[_Doomed]) -> list[_Doomed]:
    """Remove what was found; return what is gone."""
    removed = []
    with progress("removing", len(doomed)) as one_more:
        for one in doomed:
            try:
                with contextlib.suppress(ProcessNotFound):  # another client was faster
                    client.remove(one.info.process_id)
                removed.append(one)
            except OutliveError as error:
                show_error(error, word=short_name(one.info.process_id))
            one_more()
    return removed


def _show_doomed(doomed: list[_Doomed], now: datetime) -> None:
    if not doomed:
        say("Nothing to remove.")
        return
    rows = [("ID", "STATE", "ENDED", "SIZE", "COMMAND")]
    for one in doomed[:_SHOWN]:
        info = one.info
        ago = f"{age(info.ended_at or info.created_at, now)} ago"
        row = (short_name(info.process_id), outcome(info), ago, shown_size(one.size), shown_command(info))
        rows.append(row)
    show(*shown_table(rows))
    if len(doomed) > _SHOWN:
        show(f"… and {len(doomed) - _SHOWN} more")
    show(f"{_count(doomed)}, {_size(doomed)}")


def _agreed(doomed: list[_Doomed]) -> bool:
    """Ask on a terminal.

    Raises:
        InvalidRequest: There is no person to ask.
    """
    if not (sys.stdin is not None and sys.stdin.isatty()):
        text = f"{_count(doomed)} would go, and no person can be asked here."
        raise InvalidRequest("invalid_params", text, hint="Pass --yes, or --dry-run to see them only.")
    if agreed(f"Remove {_count(doomed)} for good?"):
        return True
    say("Nothing was removed.")
    return False


def _disk_bytes(folder: str) -> int:
    """Return what a folder takes on disk: less than its files' sizes where output was released."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
    return total


def _count(processes: list[_Doomed]) -> str:
    return f"{len(processes)} process" if len(processes) == 1 else f"{len(processes)} processes"


def _size(processes: list[_Doomed]) -> str:
    return shown_size(sum(one.size for one in processes))
