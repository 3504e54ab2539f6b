"""`QuestionWatch`: which processes wait for input, noticed without a client that asks.

Watched is every running process with an input, from its start or its recovery to its end: a list shows a
question, whichever door the process came through. For a process without an input, and for a service, nothing
is done. A watch
looks when the output has rested: never while output flows. One look asks the kernel in a thread
(`backends.tree_inspection`: below a millisecond, about seven system calls for each process of the tree); a
second one, `_CONFIRM_S` later, has to see the same thread in the same sleep. While nothing changes, looks
become rare: after 0.4, 1, 2, 4, 8 s and then every 16 s, two thousand system calls in an hour for a tree of
three. A caller that begins to wait has the next look made soon.

The answer is in `Process.waiting` (and so in its record): subscribers are woken when it changes, and
`InputRequested` is published. It says "no" again with the next output, with what is written to the input,
with a pause, and with the end. A shell at its prompt waits, too, and asks nothing (`Process.is_asking`).
"""

import asyncio
import logging
import re

from outlive.backends.contract import Backend
from outlive.core.errors import OutliveError
from outlive.core.events import InputRequested
from outlive.core.lifecycle import State
from outlive.core.process import InputWait, Waiting
from outlive.core.values import dataclass, field
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process import Process, until

_logger = logging.getLogger(__name__)

# A person or a model loses nothing in that time, and programs that print in pieces are not looked at between
# the pieces.
_QUIET_S = 0.4
# Longer than the turn of a program that looks at its input ten times a second (VTIME, timed reads): its sleep
# is another one.
_CONFIRM_S = 0.12
_FIRST_PAUSE_S = 1.0
_MOST_PAUSE_S = 16.0
# Of what was printed last: enough for the menu of a program, which hides the cursor before it draws.
_TAIL_BYTES = 4096
# Control sequences (ECMA-48, 5.4) and titles of windows: a prompt may end in them.
_CONTROLS = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")


@dataclass(eq=False, slots=True)
class QuestionWatch:
    """Keeps `Process.waiting` up to date for the processes that are watched. On the engine's loop only.

    Watches run from `begin` on.
    """

    backend: Backend
    events: EventPublisher
    _tasks: asyncio.TaskGroup | None = field(default=None, init=False)
    # An entry for each watched process, removed with its task: never more than there are running
    # processes.
    _watches: dict[Process, "_Watched"] = field(default_factory=dict, init=False)

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """From now on watches run in tasks of the engine's group."""
        self._tasks = tasks

    def close(self) -> None:
        """End all watches; what waits for input goes on waiting."""
        self._tasks = None
        for watch in self._watches.values():
            if watch.task is not None:
                watch.task.cancel()

    async def until_waiting(self, process: Process) -> Waiting:
        """Return what a process waits for, once it does: "input" or "password"; "no" once it is complete.

        A process without an input is waited for to its end. Waits without a deadline of its own: put it under
        `asyncio.timeout`. Cancellation: safe.
        """
        self.watch(process)
        await until(process, lambda one: one.status.waiting != "no" or one.status.is_complete)
        return process.status.waiting

    def watch(self, process: Process) -> None:
        """Keep `process.waiting` up to date until the process ends, and look soon.

        Its subscribers are woken when that changes. For a process that cannot ask, or has ended, this does
        nothing.
        """
        if self._tasks is None or not process.may_ask or process.status.is_ended:
            return
        if (watch := self._watches.get(process)) is not None:
            watch.look_soon()
            return
        watch = self._watches[process] = _Watched(process)
        watch.task = self._tasks.create_task(self._run(watch), name=f"questions of {process.process_id}")

    def note_asked(self, process: Process) -> None:
        """Note that a person was notified of what a process waits for (`ProcessRecord.is_person_asked`),
        until it waits no more.
        """
        status = process.status
        if status.waiting != "no" and not status.is_person_asked:
            status.is_person_asked = status.has_news = True
            process.subscribers.wake()

    def input_written(self, process: Process) -> None:
        """Note that a process has got input: it is not known to wait any more, and it is looked at soon."""
        _set(process, None)
        if (watch := self._watches.get(process)) is not None:
            watch.inputs += 1
            watch.woken.set()

    async def _run(self, watch: "_Watched") -> None:
        process = watch.process
        unsubscribe = process.subscribers.add(watch.woken.set)
        try:
            await self._look_on(watch)
        except (
            Exception
        ):  # the outermost loop of a task: one watch's fault ends neither the engine nor other watches
            _logger.exception("a watch for questions failed", extra={"process_id": process.process_id})
        finally:
            unsubscribe()
            _set(process, None)
            if self._watches.get(process) is watch:
                del self._watches[process]

    async def _look_on(self, watch: "_Watched") -> None:
        """Look when there is silence, until the process has ended."""
        process = watch.process
        while not process.status.is_ended:
            watch.pause_s = _QUIET_S
            seen = watch.situation
            while await watch.is_quiet(watch.pause_s, since=seen):
                if process.status.state is not State.RUNNING:  # paused, queued: it waits for something else
                    watch.pause_s = _MOST_PAUSE_S
                    continue
                # Before the look: a caller that comes meanwhile has the next one made soon.
                watch.pause_s = min(max(watch.pause_s * 2, _FIRST_PAUSE_S), _MOST_PAUSE_S)
                wait = await self._look(watch)
                if watch.situation != seen:
                    break
                self._tell(process, wait)
            _set(process, None)

    async def _look(self, watch: "_Watched") -> InputWait | None:
        """Look twice; what only one look sees was a moment between two others."""
        # What the kernel alone cannot decide (a pipe) needs a prompt as well: workers wait on pipes all day.
        first = await self._ask(watch.process)
        if first is None or not (first.is_certain or is_prompt(watch.tail())):
            return None
        seen = watch.situation
        if not await watch.is_quiet(_CONFIRM_S, since=seen):
            return None
        return first if await self._ask(watch.process) == first else None

    async def _ask(self, process: Process) -> InputWait | None:
        try:
            return await self.backend.input_wait(process.process_id)
        except OutliveError:  # its place cannot be asked just now: the next look asks again
            return None

    def _tell(self, process: Process, wait: InputWait | None) -> None:
        if _set(process, wait) and wait is not None:
            self.events.publish_process(InputRequested, process)


class _Watched:
    """One process that is watched, and what was known of it when it was looked at."""

    def __init__(self, process: Process) -> None:
        self.process = process
        # Set by the process's subscribers, by input and by callers; the watch's task alone clears it.
        self.woken = asyncio.Event()
        self.pause_s = _QUIET_S
        self.inputs = 0
        self.task: asyncio.Task[None] | None = None
        self._look_at = 0.0

    @property
    def situation(self) -> tuple[int, int, int, State]:
        """What a look depends on: it holds for as long as this is the same."""
        now = self.process.status
        return now.stdout_bytes, now.stderr_bytes, self.inputs, now.state

    def look_soon(self) -> None:
        """Have the next look made as soon as after new output."""
        self.pause_s = _QUIET_S
        self._look_at = min(self._look_at, asyncio.get_running_loop().time() + _QUIET_S)
        self.woken.set()

    async def is_quiet(self, pause_s: float, *, since: tuple[int, int, int, State]) -> bool:
        """Return True when nothing of a situation has changed for so long, False as soon as something has."""
        self._look_at = asyncio.get_running_loop().time() + pause_s
        while self.situation == since:
            self.woken.clear()
            try:
                async with asyncio.timeout_at(self._look_at):
                    await self.woken.wait()
            except TimeoutError:
                return True
        return False

    def tail(self) -> list[bytes]:
        """Return the last bytes of each stream."""
        now, log = self.process.status, self.process.raw_log
        ends = (now.stdout_bytes, now.stderr_bytes)
        return [
            log.pread(stream, _TAIL_BYTES, max(0, end - _TAIL_BYTES))
            for stream, end in enumerate(ends)
            if end
        ]


def is_prompt(tails: list[bytes]) -> bool:
    """Tell whether one of the streams ends as a question does: in the midst of a line, colours behind it not
    counted, or with the cursor hidden (DECTCEM), as below a menu.
    """
    return any(
        tail.rfind(b"\x1b[?25l") > tail.rfind(b"\x1b[?25h") or (text and not text.endswith((b"\n", b"\r")))
        for tail in tails
        for text in (_CONTROLS.sub(b"", tail).rstrip(b" \t"),)
    )


def _set(process: Process, wait: InputWait | None) -> bool:
    """Take over what a process waits for, and wake its subscribers if that is news; return whether it is."""
    status = process.status
    waiting: Waiting = "no" if wait is None else wait.kind
    prompt_thread = wait.thread if wait is not None and wait.is_at_prompt else None
    if (status.waiting, status.prompt_thread) == (waiting, prompt_thread):
        return False
    status.waiting, status.prompt_thread = waiting, prompt_thread
    status.is_person_asked = False
    status.has_news = True
    process.subscribers.wake()
    return True
