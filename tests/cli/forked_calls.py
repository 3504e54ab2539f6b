"""The command line called many times without a Python's start each time: `ForkedCalls`, a program that forks
for each call.

Each call runs in a process of its own, with its own environment, folder, signals and exit code, as one that a
shell starts has.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import outlive.cli
import outlive.client
import outlive.discovery
from outlive.cli.main import exit_code_of
from outlive.cli.output import say_fault
from outlive.cli.program import Group, Verb
from tests.cli.launching import environment

_PATIENCE_S = 20  # a call that hangs is ended by SIGALRM, and its code says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What one call said, and its exit code; a signal's number is negative."""

    code: int
    out: str
    err: str


def verbs_of(group: Group, path: str = "") -> dict[str, Verb]:
    """Return every verb by the words behind `outlive`."""
    found: dict[str, Verb] = {}
    for one in group.verbs:
        called = f"{path} {one.name}".strip()
        if isinstance(one, Verb):
            found[called] = one
        else:
            found |= verbs_of(one, called)
    return found


class ForkedCalls:
    """The program; `call` blocks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        prelude: str = "",
        patience_s: int = _PATIENCE_S,
    ) -> Called:
        """Run one command line to its end, which a signal brings after `patience_s`.

        Args:
            words: Behind `outlive`.
            env: On top of the program's environment.
            cwd: The working folder.
            prelude: "module:function", called before it. stdout and stderr are a terminal then, which `out`
                has everything of.
            patience_s: Whole seconds.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {
            "words": [*words],
            "env": dict(env),
            "cwd": str(cwd),
            "prelude": prelude,
            "patience_s": patience_s,
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program that forks has ended"
        return Called(**json.loads(line))


@contextlib.contextmanager
def forked_calls() -> Iterator[ForkedCalls]:
    """Start the program, and end it."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield ForkedCalls(process)
        assert process.stdin is not None
        process.stdin.close()


def _main() -> None:
    # Imported once, here: a call would else import what it needs, and that would be most of its time.
    for package in (outlive.cli, outlive.client, outlive.discovery):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    gc.freeze()  # a collection in a fork would copy every page
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        for line in sys.stdin:
            asked = json.loads(line)
            said = (
                _called_on_terminal(asked) if asked["prelude"] else _called(asked, out.fileno(), err.fileno())
            )
            print(json.dumps(said), flush=True)


def _called(asked: dict[str, Any], out: int, err: int) -> dict[str, object]:
    for fd in (out, err):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, os.SEEK_SET)
    pid = os.fork()
    if pid == 0:
        _become(asked, out, err)
    _, status = os.waitpid(pid, 0)
    said = [os.pread(fd, os.fstat(fd).st_size, 0).decode(errors="replace") for fd in (out, err)]
    return {"code": os.waitstatus_to_exitcode(status), "out": said[0], "err": said[1]}


def _called_on_terminal(asked: dict[str, Any]) -> dict[str, object]:
    master, slave = os.openpty()
    pid = os.fork()
    if pid == 0:
        os.close(master)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        _become(asked, slave, slave)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: it has ended, and so has all that it left behind
        while piece := os.read(master, 65536):
            shown += piece
    os.close(master)
    _, status = os.waitpid(pid, 0)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": shown.decode(errors="surrogateescape"),
        "err": "",
    }


def _become(asked: dict[str, Any], out: int, err: int) -> NoReturn:
    """Run the command line in this process, and end."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.environ |= asked["env"]
    os.chdir(asked["cwd"])
    signal.alarm(asked["patience_s"])
    code = 70  # as sysexits(3) counts a fault of the program itself: a traceback stands on stderr then
    try:
        if asked["prelude"]:
            module, _, function = asked["prelude"].partition(":")
            getattr(importlib.import_module(module), function)()
            sys.excepthook = say_fault  # as `main` does
        code = exit_code_of(asked["words"])
    finally:
        if fault := sys.exc_info()[1]:
            sys.excepthook(type(fault), fault, fault.__traceback__)
        with contextlib.suppress(ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _main()
