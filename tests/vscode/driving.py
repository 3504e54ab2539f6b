"""VS Code's window with the extension in it (driver.cjs): what its user does (`Window`), and what is seen
there.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.vscode.installed import Installed

_PATIENCE_S = 60.0


class WindowError(Exception):
    """A step failed in the extension or the stub; the message is the stack."""


@dataclass(slots=True)
class Tab:
    """One terminal as the user has seen it. `text` is all that was written into it since it was opened."""

    number: int
    name: str
    kind: str  # "pty" or "shell"
    text: str = ""
    typed: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    is_closed: bool = False
    has_ended: bool = False
    exit_code: int | None = None

    def take(self, message: dict[str, Any]) -> None:
        """See what happened to it."""
        match message["event"]:
            case "wrote":
                self.text += message["text"]
            case "typed":
                self.typed.append(message["text"])
            case "executed":
                self.executed.append(message["text"])
            case "renamed":
                self.name = message["name"]
            case "ended":
                self.has_ended, self.exit_code = True, message["code"]
            case "closed":
                self.is_closed = True


class Window:
    """One VS Code. Its methods block; `window` ends it."""

    def __init__(self, words: list[str], stderr: Path) -> None:
        """Start the program; what it says for people goes to `stderr`."""
        with stderr.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.tabs: dict[int, Tab] = {}
        self.messages: list[str] = []
        self.log: list[str] = []
        self.status = ""
        self._results: dict[int, dict[str, Any]] = {}
        self._steps = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    # ---- what is done

    def begin(self, do: str, **words: object) -> int:
        """Begin a step and return its number for `result`."""
        with self._news:
            self._steps += 1
            step = self._steps
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"step": step, "do": do, **words}) + "\n")
        self._process.stdin.flush()
        return step

    def result(self, step: int) -> Any:  # noqa: ANN401 - whatever the step returns as JSON
        """Return what came of a step.

        Raises:
            WindowError: It failed.
        """
        self.until(lambda: step in self._results, f"the result of step {step}")
        answer = self._results[step]
        if "error" in answer:
            raise WindowError(answer["error"])
        return answer["result"]

    def do(self, do: str, **words: object) -> Any:  # noqa: ANN401 - as `result`
        """Do a step and return its result."""
        return self.result(self.begin(do, **words))

    # ---- what is seen

    def until(self, is_so: Callable[[], object], what: str = "this") -> None:
        """Wait until something is so; looked at whenever something has happened."""
        with self._news:
            if not self._news.wait_for(is_so, _PATIENCE_S):
                tabs = [(tab.name, tab.kind, tab.text[-500:], tab.is_closed) for tab in self.tabs.values()]
                raise AssertionError(
                    f"not so: {what}; {self.status=} {self.messages=} {tabs=} {self.log[-15:]=}"
                )

    def tab(self, *, name: str | None = None, kind: str | None = None, after: int = 0) -> Tab:
        """Return the newest open terminal of this name and kind that was opened after tab number `after`.

        Wait for it.
        """

        def found() -> list[Tab]:
            return [
                tab
                for tab in self.tabs.values()
                if not tab.is_closed
                and tab.number > after
                and name in (None, tab.name)
                and kind in (None, tab.kind)
            ]

        self.until(found, f"a terminal {name or ''} {kind or ''}")
        return found()[-1]

    def until_connected(self) -> None:
        """Wait until the status bar says that we are connected."""
        self.until(lambda: "outlive: connected to" in self.status, "connected")

    def until_logged(self, text: str, *, times: int = 1) -> None:
        """Wait for a line of the extension's log."""
        self.until(lambda: sum(text in line for line in self.log) >= times, f"logged {text!r}")

    # ---- the program

    def leave(self) -> None:
        """Let the extension go and end the program, which must end by itself: nothing may have been left
        behind.
        """
        self.do("deactivate")
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(timeout=5) == 0, "a timer or a socket of the extension keeps Node alive"

    def end(self) -> None:
        """End the program, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            with self._news:
                self._take(message)
                self._news.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        match message:
            case {"step": step}:
                self._results[step] = message
            case {"event": "opened", "terminal": number, "name": name, "kind": kind}:
                self.tabs[number] = Tab(number, name, kind)
            case {"event": "lost"}:
                self.log.append("LOST: a pseudoterminal wrote before it was opened, or after it was closed")
            case {"event": _, "terminal": number}:
                self.tabs[number].take(message)
            case {"event": "message", "text": text}:
                self.messages.append(text)
            case {"event": "status", "tooltip": tooltip}:
                self.status = tooltip
            case {"event": "log", "level": level, "text": text}:
                self.log.append(f"{level}: {text}")
            case _:
                raise AssertionError(f"the stub says what nobody knows: {message}")


@contextlib.contextmanager
def window(
    installed: Installed,
    stderr: Path,
    *,
    url: str,
    settings: dict[str, object] | None = None,
    **words: object,
) -> Iterator[Window]:
    """Open a window whose extension is set to a server, and close it at the end."""
    opened = Window(installed.driver, stderr)
    try:
        opened.do("activate", settings={"outlive.url": url, **(settings or {})}, **words)
        yield opened
    finally:
        opened.end()
        complaints = stderr.read_text()
        assert complaints == "", complaints
    assert not [line for line in opened.log if line.startswith(("LOST", "error"))], opened.log
