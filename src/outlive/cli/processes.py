"""What the verbs on processes share: a client, the processes that are meant, one thing done to each, one
shown as JSON.

A verb that names several processes goes on when one of them fails, says why, and ends with 1.

What a person may call a process on the command line is decided by the server, for all doors
(`engine.lookup`).
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from outlive.cli.far import a_client
from outlive.cli.output import agreed, plain, say, show_error, show_json
from outlive.cli.parameters import ServerFlags, UsageError
from outlive.cli.tables import shown_command
from outlive.client import Client, OutliveError, Output, Process, ProcessNotFound
from outlive.client.results import ProcessInfo, ProcessStats
from outlive.core.errors import error_from_slug
from outlive.core.hints import MEANINGS
from outlive.core.identity import short_name
from outlive.core.values import dataclass, names_of
from outlive.kernel.project import own_project

# Control sequences and titles of windows (ECMA-48, 5.4), as one: without them a line is what a person sees.
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")


def find_process(client: Client, word: str) -> Process:
    """Return the process that a word means in the current folder's project.

    The server decides that (`engine.lookup`).

    Raises:
        ProcessNotFound: There is none.
        InvalidRequest: `process_ambiguous`: it could be several.
    """
    try:
        return client.get(word, project=own_project())
    except ProcessNotFound as error:
        # Where one of that name lives in another project, the hint says that.
        hint = error.hint if error.details else "`outlive ps --all` lists them."
        if word == "all":
            hint = "--all stands for everything that lives, where a verb takes several."
        raise ProcessNotFound(error.code, f"No process is called {word[:60]!r}.", hint=hint) from None


_T = TypeVar("_T")

_FAILED = 1
_PAGE = 1000  # the most that one answer lists


def connected(server: ServerFlags) -> Client:
    """Return a client of the server that was asked for, or of the state folder's, which is started where none
    runs.
    """
    return a_client(server.state_dir, no_start=server.no_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which processes a verb is about: names, or everything in a group or with tags.

    Attributes:
        names: What the processes are called.
        group: Instead of names: those of this group.
        tags: Instead of names: those with all of these, each as "name=value".
        all_of_them: Instead of names: all of this project; what else there is a person is asked about.
        yes: No person is asked: of all projects.
        active: Of a group or tags only those that live (True), that have ended (False), or all (None).
        with_left: Of a group or tags also those that have ended and left something running.

    Raises UsageError where nothing is named, or names and filters at once.
    """

    names: Sequence[str]
    group: str | None
    tags: Sequence[str]
    all_of_them: bool = False
    yes: bool = False
    active: bool | None = True
    with_left: bool = False

    def __post_init__(self) -> None:
        if bool(self.names) == bool(self.group is not None or self.tags or self.all_of_them):
            raise UsageError(
                "Name processes, or a --group, a --tag or --all: one of them. `outlive ps` lists them."
            )

    def processes(self, client: Client) -> Iterable[tuple[str, Callable[[], Process]]]:
        """Yield a name for messages and how to get each process."""
        if self.names:
            for name in self.names:
                yield name, lambda name=name: find_process(client, name)  # type: ignore[misc] # bound now
            return
        found = [*every(client, active=self.active, group=self.group, tags=parse_tags(self.tags) or None)]
        for info in self._of_project(found) if self.all_of_them else found:
            if self.active and info.descendants and not self.with_left:  # the command itself has ended
                continue
            process_id = info.process_id
            yield process_id, lambda process_id=process_id: client.get(process_id)  # type: ignore[misc] # as above

    def _of_project(self, found: Sequence[ProcessInfo]) -> Sequence[ProcessInfo]:
        project = own_project()
        own = [one for one in found if one.project == project]
        if self.yes or not (others := len(found) - len(own)):
            return found
        told = f"{others} of other projects {'runs' if others == 1 else 'run'}, too"
        if sys.stdin is not None and sys.stdin.isatty():
            return found if agreed(f"{told}. Those, too?") else own
        say(f"outlive: {told}, and are left alone: --yes takes them as well.")
        return own


def every(
    client: Client, *, active: bool | None, group: str | None, tags: Mapping[str, str] | None
) -> Iterator[ProcessInfo]:
    """Yield all processes that match, newest first, however many there are."""
    before: str | None = None
    while page := client.list(active=active, group=group, tags=tags, before=before, limit=_PAGE):
        yield from page
        before = page[-1].process_id


def parse_tags(words: Sequence[str]) -> dict[str, str]:
    """Return tags from "name=value" words, as `parameters.pair` has read them."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def say_degraded(slug: str) -> None:
    """Say why the server can start nothing, and what to do about it."""
    say(f"outlive: degraded: {slug}. {MEANINGS.get(slug, '')} {error_from_slug(slug, '').hint}")


def act(
    client: Client, selection: Selection, verb: Callable[[Process], None], *, said: str, as_json: bool
) -> int:
    """Do something to each process of a selection, and say so: "web (7m2x4q) is paused: npm run dev"."""

    def label(process: Process) -> str:
        info = process.info()
        return f"{called(info)} {said}: {shown_command(info)}"

    return act_on(
        selection.processes(client),
        verb,
        lambda process: process.process_id,
        label=label,
        as_json=as_json,
    )


def called(info: ProcessInfo) -> str:
    """Return what a sentence calls a process: its name, or its short id in this project, and what lists show
    of its id.
    """
    shown = short_name(info.process_id)
    own = info.name or (info.short_id if info.project == own_project() else None)
    return shown if own is None else f"{own} ({shown})"


def act_on(
    targets: Iterable[tuple[str, Callable[[], _T]]],
    verb: Callable[[_T], object],
    id_of: Callable[[_T], str],
    *,
    label: Callable[[_T], str],
    as_json: bool,
) -> int:
    """Do something to each of some targets, named as the user has, and say so; return the exit code.

    `label` is what is said of a target afterwards; it is asked for before, since it may be gone then.
    """
    outcomes: list[dict[str, object]] = []
    for name, find in targets:
        outcome: dict[str, object] = {"name": name, "process_id": None, "ok": True, "error": None}
        outcomes.append(outcome)
        try:
            target = find()
            outcome["process_id"] = id_of(target)
            said = "" if as_json else label(target)
            verb(target)
        except OutliveError as error:
            outcome |= {"ok": False, "error": {"reason": error.code, "message": error.message}}
            show_error(error, word=name)
        else:
            if not as_json:
                say(said)
    if as_json:
        show_json({"processes": outcomes})
    return 0 if all(outcome["ok"] for outcome in outcomes) else _FAILED


_TAIL_BYTES = 4096  # of the end of the output in which its last lines are looked for


def last_lines(process: Process) -> list[str]:
    """Return the last lines of a process's output that say something, without what controls a terminal."""
    items = process.tail(_TAIL_BYTES).items
    text = b"".join(item.data for item in items if isinstance(item, Output)).decode(errors="replace")
    lines = [_CONTROLS.sub("", line).rstrip("\r") for line in text.split("\n")]
    # A progress bar is as its last carriage return has left it.
    return [plain(line.rpartition("\r")[2], 200) for line in lines if line.strip()]


def seen(line: str, width: int) -> str:
    """Return a line of output as a person sees it, cut to a width."""
    return plain(_CONTROLS.sub("", line), width)


def plain_fields(value: object) -> dict[str, object]:
    """Return the fields of a value of the client's as JSON shows them."""
    return {name: _plain(getattr(value, name)) for name in names_of(type(value))}


def view(info: ProcessInfo) -> dict[str, object]:
    """Return a process as JSON shows it: the fields of `ProcessInfo`, times in ISO 8601 (UTC), the cursor as
    text.

    `reachable` stands there as at every other door: only where it is false.
    """
    shown = plain_fields(info)
    return shown if shown.pop("is_reachable") else {**shown, "reachable": False}


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case ProcessStats():
            return {name: getattr(value, name) for name in names_of(ProcessStats)}
        case _:
            return str(value)
