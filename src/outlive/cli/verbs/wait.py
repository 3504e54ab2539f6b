"""`outlive wait`: until processes have ended, or what was wished for has come.

A line for each, and then as they did.

An agent's host runs it in the background and is woken by its end. Each process and each wish has a thread
that blocks in one request; the first news of a process counts.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from outlive.cli.foreground.session import Readiness
from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import (
    OPTIONAL_NAMES,
    SERVER,
    ServerFlags,
    UsageError,
    options,
    seconds,
    switch,
    takes,
)
from outlive.cli.processes import connected, find_process, last_lines, view
from outlive.cli.progress import progress
from outlive.cli.tables import exit_status, outcome
from outlive.client import Client, InvalidRequest, OutliveError, Process, ProcessInfo
from outlive.core.durations import parse_duration
from outlive.core.identity import PROCESS_VARIABLE
from outlive.kernel.project import own_project

_ASKED = 3
_TOO_EARLY = 1
_STILL_RUNNING = 124  # as timeout(1) says that the time is up
_LOOKS = (
    4  # so often in the time of a silence its output is looked at: what ends it is seen a quarter of it late
)

_Kind = Literal["end", "text", "port", "question", "idle"]


class Wish(NamedTuple):
    """What is waited for beside the end: a text of the output, a port, a question, or a silence of `idle_s`
    seconds.
    """

    kind: _Kind
    text: str = ""
    idle_s: float = 0.0


class Arrival(NamedTuple):
    """What has come of a process; `error` is set where that cannot be known."""

    process: Process
    kind: _Kind
    info: ProcessInfo | None = None
    text: str = ""
    error: OutliveError | None = None

    @property
    def is_late(self) -> bool:
        """Whether the time was up before anything came."""
        return self.kind == "end" and self.info is not None and not self.info.is_complete


def parse_wish(word: str) -> Wish:
    """Return what a word of `--for` means. Pure.

    Raises:
        InvalidRequest: It is none of them.
    """
    kind, equals, value = word.partition("=")
    match kind:
        case "question" if not equals:
            return Wish("question")
        case "text" if value:
            return Wish("text", value)
        case "port" if value.isascii() and value.isdigit():
            Readiness(f":{value}")  # says what is no port
            return Wish("port", f":{value}")
        case "idle" if value:
            try:
                idle_s = parse_duration(value)
            except ValueError:
                idle_s = 0.0
            if idle_s > 0:
                return Wish("idle", value, idle_s)
        case _:
            pass
    text = f"--for {word[:60]!r}: pass text=TEXT, port=NUMBER, idle=TIME or question."
    raise InvalidRequest("invalid_params", text)


def _running(client: Client) -> list[str]:
    """Return the ids of all that runs in this project, but for what this verb itself runs in."""
    here = os.environ.get(PROCESS_VARIABLE)
    running = client.list(active=True, project=own_project(), limit=1000)
    return [one.process_id for one in running if one.process_id != here]


@takes(
    OPTIONAL_NAMES,
    switch("--all", "-a", about="For all that runs in this project.", to="all_of_them"),
    switch("--any", about="Return with the first of several.", to="first_only"),
    options(
        "--for",
        metavar="WHAT",
        about=(
            "Return before the end, too: text=TEXT, port=NUMBER, idle=TIME (no output) or question "
            "(exit code 3)."
        ),
        to="wishes",
    ),
    seconds("--timeout", about="Wait no longer.", to="timeout_s"),
    *SERVER,
)
def wait(
    *,
    names: list[str],
    all_of_them: bool,
    first_only: bool,
    wishes: list[str],
    timeout_s: float | None,
    server: ServerFlags,
) -> int:
    """Return when all have ended, and print a line for each: one process's exit status, or the first that is
    not 0.

    3 after a question, 0 when another wish came, 1 when a process ended with 0 before its text or port was
    there, 124 after the time.
    """
    if bool(names) == all_of_them:
        raise UsageError("Name processes, or pass --all: one of them")
    wanted = [parse_wish(word) for word in wishes]
    found: dict[str, Arrival] = {}
    late: dict[str, Arrival] = {}
    with (
        connected(server) as client,
        progress("waiting", len(names := names or _running(client))) as one_more,
    ):
        named = (find_process(client, name) for name in names)
        processes = list({one.process_id: one for one in named}.values())
        came = _begin(processes, wanted, timeout_s)
        while len(found) + len(late) < len(processes):
            news = came.get()
            if news.error is not None:
                raise news.error
            if news.process.process_id in found:
                continue
            if news.is_late:
                late[news.process.process_id] = news
                continue
            late.pop(news.process.process_id, None)
            found[news.process.process_id] = news
            one_more()
            if not server.as_json:
                show(_line(news))
            if first_only or news.kind == "question":
                break
        if server.as_json:
            told = [found.get(one.process_id) or Arrival(one, "end", one.info()) for one in processes]
            show_json({"processes": [_view(news) for news in told]})
    if len(found) < len(processes) and not (found and (first_only or _has_question(found))):
        say("outlive: the time is up; what runs goes on.")
        return _STILL_RUNNING
    is_early = any(wish.kind in {"text", "port"} for wish in wanted)
    ends = [found[one.process_id] for one in processes if one.process_id in found]
    return next((code for news in ends if (code := _code(news, is_early=is_early))), 0)


def _has_question(found: Mapping[str, Arrival]) -> bool:
    return any(news.kind == "question" for news in found.values())


def _begin(
    processes: Sequence[Process], wishes: Sequence[Wish], timeout_s: float | None
) -> "queue.Queue[Arrival]":
    """Begin to wait, a thread for each process and wish; return where news comes."""
    came: queue.Queue[Arrival] = queue.Queue()

    def watch(process: Process, kind: _Kind, look: Callable[[], Arrival | None]) -> None:
        try:
            news = look()
        except OutliveError as error:
            news = Arrival(process, kind, error=error)
        if news is not None:
            came.put(news)

    for process in processes:
        looks: list[tuple[_Kind, Callable[[], Arrival | None]]] = [
            ("end", lambda process=process: _end(process, wishes, timeout_s))  # type: ignore[misc] # bound now
        ]
        looks += [
            (wish.kind, lambda process=process, wish=wish: _met(process, wish))  # type: ignore[misc] # as above
            for wish in wishes
            if wish.kind != "question"
        ]
        for kind, look in looks:
            # They end with this program: what they wait for is no longer of interest.
            threading.Thread(target=watch, args=(process, kind, look), name=kind, daemon=True).start()
    return came


def _end(process: Process, wishes: Sequence[Wish], timeout_s: float | None) -> Arrival:
    """Wait for the end, and for a question if that is wished for.

    A text that came last counts more than the end.
    """
    asks = any(wish.kind == "question" for wish in wishes)
    info = process.wait(timeout_s, until="input" if asks else "complete")
    if asks and info.waiting is not None and not info.is_complete:
        return Arrival(process, "question", info)
    if info.is_complete:
        for wish in wishes:
            if wish.kind == "text" and (news := _met(process, wish)) is not None:
                return news
    return Arrival(process, "end", info)


def _met(process: Process, wish: Wish) -> Arrival | None:
    """Wait until a wish is met; None when the process has ended before."""
    if wish.kind == "idle":
        return _silence(process, wish)
    if Readiness(wish.text).wait(process) is not None:
        return None
    return Arrival(
        process, wish.kind, process.info(), wish.text.removeprefix(":") if wish.kind == "port" else wish.text
    )


def _silence(process: Process, wish: Wish) -> Arrival | None:
    since = time.monotonic()
    info = process.info()
    while not info.is_complete:
        before, info = info.cursor, process.wait(wish.idle_s / _LOOKS)
        if info.cursor != before:
            since = time.monotonic()
        elif time.monotonic() - since >= wish.idle_s:
            return Arrival(process, "idle", info, wish.text)
    return None


def _line(news: Arrival) -> str:
    """Return what is printed: the id, what has come, and the last line of output."""
    info = news.info
    words = {
        "text": f"has printed {news.text!r}",
        "port": f"listens on port {news.text}",
        "idle": f"printed nothing for {news.text} s",
        "question": f"asks for {info.waiting}" if info is not None else "",
    }
    if news.kind == "end" and info is not None:
        ran_s = ((info.ended_at or info.created_at) - (info.started_at or info.created_at)).total_seconds()
        said = f"{outcome(info)} after {ran_s:.1f} s"
    else:
        said = words[news.kind]
    lines = last_lines(news.process)
    return f"{news.process.process_id}  {said}" + (f": {lines[-1]}" if lines else "")


def _view(news: Arrival) -> dict[str, object]:
    """Return a process as JSON shows it, with what has come of it; null where the time was up."""
    shown = {} if news.info is None else view(news.info)
    return {**shown, "event": None if news.is_late else news.kind}


def _code(news: Arrival, *, is_early: bool) -> int:
    if news.kind == "question":
        return _ASKED
    if news.kind != "end" or news.info is None:
        return 0
    return exit_status(news.info) or (_TOO_EARLY if is_early else 0)
