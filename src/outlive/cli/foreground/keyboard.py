"""What is typed at our terminal, to the command: `Keyboard`, a thread.

The keys that leave a command running, as docker writes them: `DetachKeys`. Sans I/O.

Our standard input from a pipe or file, to a command that cannot read it itself (it runs on another machine,
or ran already when we came): `feed`, a thread.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable

from outlive.cli.foreground.signals import Suspension
from outlive.cli.foreground.terminal import LeaveWatch, OwnTerminal, Screen, ignores_stop, look_at
from outlive.cli.output import show_error
from outlive.client import LimitExceeded, OutliveError, Process
from outlive.core.errors import InvalidRequest
from outlive.core.values import dataclass

_BELL = b"\a"
_CTRL_MARKS = {"@": 0, "[": 27, "\\": 28, "]": 29, "^": 30, "_": 31}


class DetachKeys:
    r"""Finds a sequence of keys in what is typed; what may be its beginning is held back until the next key.

    "ctrl-p,ctrl-q": ctrl- with a letter or one of @ [ \ ] ^ _, or single characters, separated by commas.
    Empty: none.
    """

    def __init__(self, text: str) -> None:
        """Read the sequence.

        Raises:
            InvalidRequest: It is none.
        """
        self._sequence = bytes(_byte(word) for word in text.split(",")) if text else b""
        self._held = b""

    def take(self, typed: bytes) -> tuple[bytes, bool]:
        """Return what of all that was typed goes to the command, and whether the sequence is complete."""
        if not self._sequence:
            return typed, False
        waiting = self._held + typed
        found = waiting.find(self._sequence)
        if found >= 0:
            self._held = b""
            return waiting[:found], True
        size = len(self._sequence) - 1
        while size and not waiting.endswith(self._sequence[:size]):
            size -= 1
        self._held = waiting[len(waiting) - size :] if size else b""
        return waiting[: len(waiting) - size], False


def _byte(word: str) -> int:
    if len(word) == 1 and word.isascii():
        return ord(word)
    prefix, _, key = word.lower().partition("-")
    if prefix == "ctrl" and len(key) == 1:
        if "a" <= key <= "z":
            return ord(key) - ord("a") + 1
        if key in _CTRL_MARKS:
            return _CTRL_MARKS[key]
    raise InvalidRequest(
        "invalid_params",
        f"--detach-keys: {word!r} is no key.",
        hint="Keys are single characters or ctrl-<letter>, separated by commas: ctrl-p,ctrl-q.",
    )


_LOOK_S = 0.2  # whether we are in the foreground (again): nothing reports that
_READ_BYTES = 16 * 1024
_FED_BYTES = 64 * 1024
_LEAVES_S = 0.5  # a program that suspends itself has left its screen by then
_SETTLES_S = 0.1


@dataclass(slots=True, kw_only=True)
class Keyboard:
    """Reads the terminal while we are in the foreground, and never in the background.

    With a terminal of the command's own behind it (`keys` is there) every key goes through; else lines do, as
    the terminal hands them out, and its end of file closes the command's input.

    Attributes:
        process: What is typed for.
        pid: Its own, if it runs here.
        screen: Shows what it draws, if it has a terminal.
        detach: Ends this program.
    """

    process: Process
    terminal: OwnTerminal
    descriptor: int
    pid: int | None
    screen: Screen | None
    suspension: Suspension
    detach: Callable[[], None]
    keys: DetachKeys

    def begin(self) -> None:
        """Read until there is nothing to read any more."""
        threading.Thread(target=self._run, name="keyboard", daemon=True).start()

    def fit(self) -> None:
        """Give the command's terminal the size of ours."""
        with contextlib.suppress(OutliveError):
            self.process.resize(*self.terminal.size)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        with contextlib.suppress(
            OutliveError
        ):  # it has ended, or the server is gone for good: the main thread says so
            while True:
                if not self.terminal.is_ours:
                    time.sleep(_LOOK_S)
                    continue
                if self.screen is not None and not self.terminal.is_raw:
                    self.terminal.make_raw()
                    self.fit()
                if not poll.poll(_LOOK_S * 1000) or not self.terminal.is_ours:
                    continue
                try:
                    typed = os.read(self.descriptor, _READ_BYTES)
                except OSError:
                    return  # hung up
                if not typed:
                    if self.screen is None:
                        self.process.close_stdin()
                    return
                self._pass_on(typed)

    def _pass_on(self, typed: bytes) -> None:
        if self.screen is None:
            self.process.write(typed)
            return
        data, is_detaching = self.keys.take(typed)
        while data:
            data = self._type(self.screen, data)
        if is_detaching:
            self.detach()

    def _type(self, screen: Screen, data: bytes) -> bytes:
        """Type up to and with the first key that suspends; return what is behind it."""
        pid = self.pid
        inner = None if pid is None else look_at(pid)
        if pid is None or inner is None or not inner.suspend_key or inner.suspend_key not in data:
            self._write(screen, data)
            return b""
        first, key, rest = data.partition(inner.suspend_key)
        if inner.has_own_jobs or ignores_stop(pid):
            self._write(screen, first + key)
            return rest
        watch = LeaveWatch()
        with screen.watched(watch):
            self._write(screen, first + key)
            self._wait_for(lambda: watch.has_left, _LEAVES_S if not inner.makes_signal else _SETTLES_S)
            if watch.has_left:
                self._wait_for(lambda: watch.has_entered, _SETTLES_S)
            if (watch.has_left or inner.makes_signal) and os.path.exists(f"/proc/{pid}"):
                self.suspension.suspend(whole_group=True)
                self.fit()
        return rest

    def _write(self, screen: Screen, data: bytes) -> None:
        try:
            self.process.write(data)
        except LimitExceeded as error:
            if error.code != "line_too_long":
                raise
            screen.take(_BELL)  # as terminals say of a key that they do not take

    @staticmethod
    def _wait_for(has_happened: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not has_happened() and time.monotonic() < deadline:
            time.sleep(0.005)


def feed(process: Process) -> None:
    """Write what our stdin has to a process, and close its input behind that, in a thread."""
    threading.Thread(target=_feed, args=(process,), name="stdin", daemon=True).start()


def _feed(process: Process) -> None:
    try:
        while data := os.read(0, _FED_BYTES):
            process.write(data)
        process.close_stdin()
    except OutliveError as error:
        if error.code not in {"process_ended", "stdin_closed"}:
            show_error(error)
    except OSError:
        return
