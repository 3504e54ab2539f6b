"""Waiting for what a model can act on: an end, a text, a port, a question, silence (promise S4.13.waits).

`until_answerable` waits for one process, `until_any` for several. Nothing is polled but ports, which have no
event: output and ends wake the wait, and the engine's `QuestionWatch` says when a process waits for input.
Nothing is consumed, and nothing is ended.

A call may wait as long as its host does (`patience_of`): hosts give up after a minute, unless progress
restarts their clock.
"""

import asyncio
import contextlib
import math
import re
from collections.abc import AsyncIterator, Iterator
from typing import Literal

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.lifecycle import State
from outlive.core.values import dataclass
from outlive.engine import Engine, OutputChunk, Process
from outlive.engine.processes.process import until
from outlive.frontends.mcp.tools.calls import Caller, Progress
from outlive.kernel.socket_tables import is_listening
from outlive.protocols.mcp.arguments import WaitFor
from outlive.protocols.mcp.hosts import NO_LIMIT_S, host_of
from outlive.protocols.output.error_lines import error_spans
from outlive.protocols.output.pattern import AwaitedText
from outlive.protocols.plain import strip_ansi

# Why a wait is over: the process is complete, a wish came true, it waits for input, it is paused, it has
# reported an error and sleeps, or the time is up.
Reason = Literal["end", "text", "port", "idle", "question", "paused", "error", "time"]


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """Why a wait is over, and which of its wishes came, in the words of a header; empty for none."""

    reason: Reason
    came: str = ""


_LOOK_S = 0.1  # a port has no event; ten looks a second cost a hundredth of a core
_NOTHING = WaitFor()
# A server has said that it is ready, or a start has failed and waits for files to change: both fall silent.
# Looking at a whole tree takes some milliseconds.
_SILENCE_S = 3.0
_SELDOM_S = 60.0
_ERROR_BYTES = 8192  # of the newest output: an error's line, its stack, and that it waits for changes
_HELD_BYTES = 4096  # of looked through output, in which a wished text may have begun
_WORD_PART = re.compile(rb"\A\w+")
_FAILED = "it has reported an error and fell silent"
_MOST_WISHED = 40  # characters of a wished text that a header names: its caller knows the rest


async def until_answerable(
    engine: Engine,
    process: Process,
    wanted: WaitFor | None = None,
    *,
    wait_s: float,
    start: Cursor = BEGINNING,
    heeds_servers: bool = False,
    leaves_to_person: bool = False,
) -> WaitEnd:
    """Return when a wish is met, when the process asks something or is complete, or after `wait_s`.

    Args:
        engine: Knows which processes wait for input.
        process: What is waited for.
        wanted: The wishes; None for none.
        wait_s: The most seconds.
        start: A text is looked for from here on.
        heeds_servers: Whether a process that listens on a port, and has fallen silent, is answered about: it
            will not end by itself. So is one that has reported an error and then sleeps in silence, which is
            heeded wherever a text or a port is wished for, too.
        leaves_to_person: Whether a password that a person was asked for is waited for, too: it is known
            already.

    Cancellation: safe.
    """
    deadline = asyncio.get_running_loop().time() + wait_s
    watch = _ReadinessProbe(
        engine,
        process,
        wanted or _NOTHING,
        start,
        deadline=deadline,
        heeds_servers=heeds_servers,
        leaves_to_person=leaves_to_person,
    )
    woken = asyncio.Event()
    # Subscribed before the first look: an end between look and wait would else wake nothing until the
    # deadline.
    unsubscribe = process.subscribers.add(woken.set)
    try:
        engine.questions.watch(process)
        while True:
            woken.clear()  # before the look: what changes meanwhile wakes the next one
            if (over := await watch.look()) is not None:
                if over.reason == "end":
                    await engine.queries.settle(process)
                return over
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(watch.next_at):
                    await woken.wait()
    finally:
        unsubscribe()


class _ReadinessProbe:
    """Looks whether a process is answerable.

    `next_at` is when the next look is due if nothing wakes it before.
    """

    def __init__(
        self,
        engine: Engine,
        process: Process,
        wanted: WaitFor,
        start: Cursor,
        *,
        deadline: float,
        heeds_servers: bool,
        leaves_to_person: bool,
    ) -> None:
        self._engine = engine
        self._process = process
        self._wanted = wanted
        self._deadline = deadline
        self._leaves_to_person = leaves_to_person
        self._finder = _Finder(process, wanted.text, start)
        self._clock = asyncio.get_running_loop().time
        # Silence counts from the first output on: a program that has said nothing yet has not fallen silent.
        self._size = start.stdout + start.stderr
        self._changed_at: float | None = None
        self._start = start
        self._heeds_servers = heeds_servers
        heeds_silence = heeds_servers or bool(wanted.text or wanted.port)
        self._silence_pause_s = _SILENCE_S
        self._silence_at = self._clock() + _SILENCE_S if heeds_silence else math.inf
        self.next_at = deadline

    async def look(self) -> WaitEnd | None:
        """Return why the wait is over; None while it is not."""
        process = self._process
        self._note_output()
        # What is there now, and no more: behind a flood this loop would never end, and no deadline be seen.
        now = Cursor(process.status.stdout_bytes, process.status.stderr_bytes)
        while self._finder.is_before(now):
            if (text := self._finder.find()) is not None:
                return WaitEnd("text", f"{_shown(text)} came")
            if self._clock() >= self._deadline and not self._process.status.is_complete:
                return WaitEnd("time")  # a flood is written faster than it is looked through
            await asyncio.sleep(0)  # bounded work per turn
        # In the order of what a model can do with it: after an end nothing else matters, and a question waits
        # for the caller.
        if process.status.is_complete:
            return WaitEnd("end")
        if process.status.waiting != "no" and not self._is_left_to_person():
            return WaitEnd("question")
        if process.status.state is State.PAUSED:
            return WaitEnd("paused")  # it does nothing until it is resumed
        for port in self._wanted.port:
            if await asyncio.to_thread(is_listening, port):
                return WaitEnd("port", f"port {port} is open")
        if self._is_idle():
            return WaitEnd("idle")
        if (reason := await self._silent_reason()) is not None:
            return WaitEnd(reason)
        if self._clock() >= self._deadline:
            return WaitEnd("time")
        self.next_at = min(self._dues())
        return None

    def _note_output(self) -> None:
        size = self._process.status.stdout_bytes + self._process.status.stderr_bytes
        if size != self._size:
            self._size, self._changed_at = size, self._clock()
            if self._silence_at != math.inf:
                self._silence_pause_s = _SILENCE_S
                self._silence_at = self._clock() + _SILENCE_S

    def _is_left_to_person(self) -> bool:
        process = self._process
        return (
            self._leaves_to_person and process.status.waiting == "password" and process.status.is_person_asked
        )

    def _is_idle(self) -> bool:
        wanted_s = self._wanted.idle_s
        return (
            wanted_s is not None
            and self._changed_at is not None
            and self._clock() - self._changed_at >= wanted_s
        )

    async def _silent_reason(self) -> Reason | None:
        """Return why a tree that has been silent is answered about: it listens on a port, or has reported an
        error and sleeps.

        Looked at ever more seldom.
        """
        if self._clock() < self._silence_at:
            return None
        self._silence_pause_s = min(2 * self._silence_pause_s, _SELDOM_S)
        self._silence_at = self._clock() + self._silence_pause_s
        seen = await self._engine.queries.observe(self._process)
        if self._heeds_servers and seen.ports:
            return "port"
        return "error" if not seen.is_busy and self._has_reported() else None

    def _has_reported(self) -> bool:
        """Tell whether the newest output has a line that reports an error."""
        log, start = self._process.log, self._start
        near = log.tail_cursor(_ERROR_BYTES)
        near = Cursor(max(near.stdout, start.stdout), max(near.stderr, start.stderr))
        data = [b"", b""]
        for chunk in log.read(near, _ERROR_BYTES):
            data[chunk.stream] += chunk.data
        return any(next(error_spans(one), None) is not None for one in data)

    def _dues(self) -> Iterator[float]:
        yield self._deadline
        yield self._silence_at
        if self._wanted.idle_s is not None and self._changed_at is not None:
            yield self._changed_at + self._wanted.idle_s
        if self._wanted.port:
            yield self._clock() + _LOOK_S


async def until_any(
    engine: Engine,
    processes: list[Process],
    wanted: WaitFor | None,
    *,
    wait_s: float,
    needs_all: bool,
    starts: list[Cursor],
) -> list[WaitEnd | None]:
    """Return when one of the processes is answerable (or all are, with `needs_all`), or after `wait_s`.

    For each process: why its wait is over, None where it is not, since another one is the answer.

    A question of any of them is an answer in either case: without it that process would never end. A password
    that a person was asked for is none: a caller that is told so again and again asks again and again.

    Cancellation: safe.
    """
    waits = [
        asyncio.create_task(
            until_answerable(engine, process, wanted, wait_s=wait_s, start=start, leaves_to_person=True)
        )
        for process, start in zip(processes, starts, strict=True)
    ]
    try:
        left = set(waits)
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            reasons = {one.result().reason for one in done}
            if "question" in reasons or (not needs_all and reasons != {"time"}):
                break
        return [one.result() if one.done() else None for one in waits]
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def wish_words(wanted: WaitFor | None, over: WaitEnd | None) -> str:
    """Return which wish came, or what was waited for and did not come, in the words of a header.

    Empty where nothing was wished for.

    Cancellation: safe.
    """
    if over is None or wanted is None:
        return _FAILED if over is not None and over.reason == "error" else ""
    # Looked at once more: a server that goes into the background listens after the end of what has started
    # it.
    for port in wanted.port if over.reason == "end" else ():
        if await asyncio.to_thread(is_listening, port):
            return f"port {port} is open"
    if over.came or over.reason == "idle":
        return over.came
    yet = "" if over.reason == "end" else " yet"
    texts, ports = " or ".join(map(_shown, wanted.text)), " or ".join(map(str, wanted.port))
    missed = [
        f"{texts} did not come{yet}" if texts else "",
        f"nothing listens on {ports}{yet}" if ports else "",
        _FAILED if over.reason == "error" else "",
    ]
    return ", ".join(filter(None, missed))


def _shown(text: str) -> str:
    return repr(text[:_MOST_WISHED])


class _Finder:
    """Looks for texts in new output, each stream for itself; holds no more than its newest 4 KiB."""

    def __init__(self, process: Process, texts: tuple[str, ...], start: Cursor) -> None:
        self._process = process
        self._wishes = [AwaitedText(text) for text in texts]
        self._cursor = start
        self._ends = [b"", b""]

    def is_before(self, end: Cursor) -> bool:
        """Tell whether there is output before `end` that was not looked at."""
        seen = self._cursor
        return bool(self._wishes) and (seen.stdout < end.stdout or seen.stderr < end.stderr)

    def find(self) -> str | None:
        """Look at the next 64 KiB, and return which text they have; None for none."""
        chunks = self._process.log.read(self._cursor, 65536)
        self._cursor = OutputChunk.after(self._cursor, chunks)
        for chunk in chunks:
            seen = self._ends[chunk.stream] + chunk.data
            for wish in self._wishes:
                if wish.is_in(seen):
                    return wish.text
            # A text may begin at the end of one chunk and go on in the next, as far apart as the reads of the
            # keeper cut it.
            if len(seen) > _HELD_BYTES:
                seen = _WORD_PART.sub(b"", seen[-_HELD_BYTES:])  # the rest of a word is the beginning of none
            self._ends[chunk.stream] = seen
        return None


_REPORT_S = 2.0  # between two progress messages: a person watches them
_TAIL_BYTES = 4096  # of output, among which the newest line is looked for
_MOST_CHARACTERS = 200
_BLANK = re.compile(r"\s+")


@contextlib.asynccontextmanager
async def reporting(processes: list[Process], progress: Progress | None) -> AsyncIterator[None]:
    """Report the newest line of output to a client that shows progress, every 2 s, while the block runs.

    A slow client delays its own reports only: a report waits for the one before it. Nothing is reported after
    the block.
    """
    if progress is None:
        yield
        return
    task = asyncio.create_task(_report(processes, progress), name="progress")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _report(processes: list[Process], progress: Progress) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    while True:
        await asyncio.sleep(_REPORT_S)
        shown = [newest_line(process) for process in processes if not process.status.is_complete]
        lines = " | ".join(filter(None, shown))
        # A message at each turn, also without output: what restarts a host's clock is the message.
        await progress(
            f"{clock() - begun:.0f} s: {lines}" if lines else f"{clock() - begun:.0f} s, no output yet"
        )


def newest_line(process: Process) -> str:
    """Return the newest line of output that shows something, cut to what fits a status bar."""
    log = process.log
    text = b"".join(chunk.data for chunk in log.read(log.tail_cursor(_TAIL_BYTES), _TAIL_BYTES)).decode(
        "utf-8", "replace"
    )
    for line in reversed(text.splitlines()):
        plain = _BLANK.sub(" ", strip_ansi(line)).strip()
        if plain:
            return plain[-_MOST_CHARACTERS:]
    return ""


_DEFAULT_WAIT_S = 45.0  # many hosts give up after a minute
_MOST_WAIT_S = 50.0
_MARGIN_S = 20.0  # before a known limit: an answer takes a moment, and crosses no cancel on its way
_LONGEST_WAIT_S = 25 * 60.0  # a person that looks at the screen has lost patience long before
_RAW_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class WaitBounds:
    """How long a call may wait: `usual_s` where it does not say, `most_s` whatever it says."""

    usual_s: float
    most_s: float

    def seconds(self, asked_s: float | None) -> float:
        """Return how long a call waits that asks for `asked_s`."""
        return min(self.usual_s if asked_s is None else asked_s, self.most_s)


def patience_of(
    caller: Caller, *, has_progress: bool, is_patient: bool, usual_s: float = _DEFAULT_WAIT_S
) -> WaitBounds:
    """Return how long the calls of a caller may wait.

    Args:
        caller: The client. A raw one is a program that says itself how long it waits.
        has_progress: Whether it asked for progress.
        is_patient: Whether progress was seen to restart its host's clock.
        usual_s: The setting `wait`: a shorter one than the default holds for every host that gives up at all.
    """
    if caller.is_raw:
        return WaitBounds(usual_s, _RAW_WAIT_S)
    host = host_of(caller.client)
    if has_progress and (is_patient or host.restarts_at_progress):
        return WaitBounds(_LONGEST_WAIT_S, _LONGEST_WAIT_S)
    most_s = 0.0 if host.limit_s in {None, NO_LIMIT_S} else (host.limit_s or 0.0) - _MARGIN_S
    if most_s > _MOST_WAIT_S:
        return WaitBounds(usual_s if usual_s < _DEFAULT_WAIT_S else most_s, most_s)
    return WaitBounds(min(usual_s, _MOST_WAIT_S), _MOST_WAIT_S)


def cut_words(asked_s: float | None, wait_s: float, over: WaitEnd | None) -> str:
    """Return that a wait was shorter than asked for, in the words of a header; empty where that changed
    nothing.
    """
    is_cut = asked_s is not None and asked_s > wait_s and over is not None and over.reason == "time"
    return f"wait_s is at most {wait_s:g} at this host" if is_cut else ""


async def until_complete(process: Process, *, at: float | None) -> None:
    """Return when a process is complete, or at that time of the loop's clock (None: never before)."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(at):
            await until(process, lambda one: one.status.is_complete)
