"""A terminal to look at: a tmux of the test's own, with one bash in it."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.comparing import run_words
from tests.support.server import OutliveServer

_PATIENCE_S = 60.0
_PROMPT = "$> "
_REQUIRED = "OUTLIVE_REQUIRE_PROGRAMS"


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip where a program is missing; `.ci/run` allows no skip."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing and os.environ.get(_REQUIRED):
        raise AssertionError(f"{_REQUIRED} is set, and {', '.join(missing)} is not installed")
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


class Screen:
    """One pane of 24 rows by 80 columns."""

    def __init__(self, socket: Path, folder: Path) -> None:
        """Start an interactive bash in `folder`."""
        self._socket = socket
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",  # tmux starts what it is told by this account's shell, which may be none
        }
        shell = f"env PS1='{_PROMPT}' bash --norc --noprofile -i"
        self._tmux(
            "-f",
            os.devnull,
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "-c",
            str(folder),
            shell,
            env=environment,
        )
        self.wait(lambda text: text.startswith(_PROMPT.strip()), "a prompt")

    def _tmux(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=env,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self) -> str:
        """Return what is on the screen now, without blank lines at its end."""
        return self._tmux("capture-pane", "-p").rstrip("\n")

    def last_line(self) -> str:
        """Return the last line that is not blank."""
        return (self.text().splitlines() or [""])[-1]

    def type(self, *keys: str) -> None:
        """Press keys by tmux's names (`C-c`, `Enter`); other words are typed as they are."""
        self._tmux("send-keys", *keys)

    def say(self, line: str) -> None:
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")

    def wait(self, holds: Callable[[str], bool], what: str) -> str:
        """Return the screen once something holds of it."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(text := self.text()):
            assert time.monotonic() < deadline, f"waited in vain for {what}; the screen shows:\n{text}"
            time.sleep(0.02)
        return text

    def wait_text(self, wanted: str) -> str:
        """Return the screen once it shows a text."""
        return self.wait(lambda text: wanted in text, repr(wanted))

    def wait_prompt(self) -> str:
        """Return the screen once its last line is an empty prompt."""
        return self.wait(lambda text: text.splitlines()[-1:] == [_PROMPT.strip()], "the prompt")

    def resize(self, columns: int, rows: int) -> None:
        """Change the window's size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def close(self) -> None:
        """End the pane and everything in it."""
        with contextlib.suppress(AssertionError):
            self._tmux("kill-server")


@contextlib.contextmanager
def screen(folder: Path) -> Iterator[Screen]:
    """Yield a screen; in the end nothing of it is left."""
    one = Screen(folder / "tmux", folder)
    try:
        yield one
    finally:
        one.close()


class Stages:
    """Plays a scene bare and through `outlive run`: `./x` stands before the command in both."""

    def __init__(self, server: OutliveServer, folder: Path) -> None:
        """Play in folders below `folder`."""
        self.server = server
        self.folder = folder

    def play(self, scene: Callable[[Screen], None], *flags: str, is_bare: bool = False) -> str:
        """Play it and return the last screen."""
        folder = self.folder / ("bare" if is_bare else "through")
        folder.mkdir()
        x = folder / "x"
        words = [] if is_bare else run_words(self.server, *flags)
        x.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
        x.chmod(0o755)
        with screen(folder) as shown:
            scene(shown)
            return shown.text()

    def both(self, scene: Callable[[Screen], None], *flags: str) -> str:
        """Play it both ways, hold that the last screens are the same, and return it."""
        bare, through = self.play(scene, is_bare=True), self.play(scene, *flags)
        assert through == bare
        return bare
