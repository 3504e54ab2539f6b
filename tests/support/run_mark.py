"""The mark of a run of the tests, which everything that it starts inherits, and the watcher that ends what
carries it.

However pytest ends (SIGKILL included), no process and no folder of the run is left. Loaded as a plugin by the
root conftest.
"""

import os
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from tests.support.run_watcher import VARIABLE

_SHARED = ("/tmp", "/var/tmp")  # where a run makes one folder each

_SERVERS = "servers"  # a byte for each server that the run has started, by whichever worker

_WATCHER = pytest.StashKey["subprocess.Popen[bytes]"]()


def marked() -> dict[str, str]:
    """Return the variable with the mark, for environments that are made anew."""
    return {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}


def open_folder_of_run() -> Path:
    """Return a new folder that everybody may enter, as pytest's own may not.

    Removed with the run at the latest.
    """
    folder = Path(tempfile.mkdtemp(dir=_folders(_mark())[-1]))
    folder.chmod(0o755)
    return folder


def count_server() -> None:
    """Note that a server is started; the run's summary says how many were.

    Outside of pytest nothing is counted.
    """
    if VARIABLE not in os.environ:
        return
    with open(f"{_folders(_mark())[0]}/{_SERVERS}", "ab") as file:
        file.write(b".")


def _mark() -> str:
    """Return this run's own mark; a run inside of another one carries both."""
    return os.environ[VARIABLE].rpartition(":")[2]


def _folders(mark: str) -> list[str]:
    """Return the run's folders; short: sockets lie in them (unix(7))."""
    return [f"{shared}/ot-{mark}" for shared in _SHARED]


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Begin a run: its mark, its watcher, and a folder of its own for what lies outside of pytest's."""
    if _is_worker(config):
        return
    mark = uuid.uuid4().hex[:16]
    watcher = Path(__file__).with_name("run_watcher.py")
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    config.stash[_WATCHER] = started = subprocess.Popen(
        [sys.executable, "-I", "-S", str(watcher), mark, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    os.environ[VARIABLE] = ":".join(filter(None, [os.environ.get(VARIABLE), mark]))
    for folder in _folders(mark):
        os.mkdir(folder)
        os.chmod(folder, 0o755)  # noqa: S103 -- other users enter it, to what is theirs
        _say(started, f"remove {folder}")


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Name pytest's own folder, which each of its tests has a part of.

    What is made beside it lies in the run's.
    """
    factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    own = factory.getbasetemp()
    watcher = session.config.stash.get(_WATCHER, None)
    if watcher is not None:
        _say(watcher, f"keep {own}")
    tempfile.tempdir = _folders(_mark())[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many servers were started: they are most of what a run costs."""
    counted = Path(_folders(_mark())[0], _SERVERS)
    if counted.exists():
        terminalreporter.write_line(f"servers started: {counted.stat().st_size}")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End a run: what is left of it after pytest is not expected, and ended all the same."""
    watcher = config.stash.get(_WATCHER, None)
    if watcher is not None:
        _say(watcher, "done")
        watcher.returncode = 0  # it outlives us: nobody waits for it


def _say(watcher: "subprocess.Popen[bytes]", line: str) -> None:
    assert watcher.stdin is not None
    watcher.stdin.write(line.encode() + b"\n")
    watcher.stdin.flush()
