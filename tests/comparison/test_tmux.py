"""tmux: a server that outlives its clients, and takes everything along when it ends."""

import os
import pty
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.comparison.trial import EXIT_CODE, Trial, until, wait_for_end
from tests.support.processes import is_alive
from tests.support.run_mark import open_folder_of_run

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux on this machine")


@dataclass(frozen=True, slots=True)
class Tmux:
    """A tmux server of the test's own."""

    socket: Path

    @property
    def words(self) -> list[str]:
        """What begins each command for it; no file of the user's is read."""
        return ["tmux", "-S", str(self.socket), "-f", "/dev/null"]

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of tmux (blocks)."""
        return subprocess.run(
            [*self.words, *words], capture_output=True, text=True, timeout=30, check=False, env=_environment()
        )

    def pane(self) -> str:
        """What its only pane shows."""
        return self.ask("capture-pane", "-p").stdout

    def number(self, name: str) -> int:
        """Return a number that tmux knows: `pid` is the server's, `pane_pid` the command's."""
        return int(self.ask("display-message", "-p", f"#{{{name}}}").stdout)


def _environment() -> dict[str, str]:
    """No tmux around it, and a shell: tmux starts commands by this account's, which may be none."""
    return {name: value for name, value in os.environ.items() if name != "TMUX"} | {
        "TERM": "xterm",
        "SHELL": "/bin/sh",
    }


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    """A server that is not started yet, at a short path: a socket lies there."""
    made = Tmux(open_folder_of_run() / "s")
    yield made
    made.ask("kill-server")


def _start(tmux: Tmux, trial: Trial) -> int:
    """Start the trial's command; return its child's pid."""
    assert tmux.ask("new-session", "-d", "-x", "80", "-y", "24", trial.script()).returncode == 0
    return trial.child_in(until(tmux.pane, "before"))


def test_tmux_keeps_output_when_its_client_dies(tmux: Tmux, trial: Trial) -> None:
    _start(tmux, trial)
    tmux.ask("set-option", "-g", "remain-on-exit", "on")
    ours, theirs = pty.openpty()
    client = subprocess.Popen(
        [*tmux.words, "attach"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=_environment(),
    )
    until(lambda: tmux.ask("list-clients").stdout, "attached")
    client.kill()
    client.wait()
    os.close(ours)
    os.close(theirs)
    trial.open_gate()
    until(tmux.pane, "after")


def test_tmux_loses_command_and_output_when_its_server_dies(tmux: Tmux, trial: Trial) -> None:
    _start(tmux, trial)
    server, command = tmux.number("pid"), tmux.number("pane_pid")
    os.kill(server, signal.SIGKILL)
    wait_for_end(server)
    wait_for_end(command)  # its terminal has gone: SIGHUP
    assert tmux.ask("capture-pane", "-p").returncode != 0


@pytest.mark.parametrize("remains", [False, True])
def test_tmux_knows_an_exit_code_only_while_a_dead_pane_remains(
    tmux: Tmux, trial: Trial, *, remains: bool
) -> None:
    _start(tmux, trial)
    if remains:
        tmux.ask("set-option", "-g", "remain-on-exit", "on")
    server = tmux.number("pid")
    trial.open_gate()
    if remains:
        until(tmux.pane, "Pane is dead")
        assert tmux.number("pane_dead_status") == EXIT_CODE
    else:
        wait_for_end(server)  # with its last pane
        assert tmux.ask("list-panes").returncode != 0


def test_ending_a_pane_of_tmux_leaves_its_setsid_child(tmux: Tmux, trial: Trial) -> None:
    child = _start(tmux, trial)
    command = tmux.number("pane_pid")
    tmux.ask("kill-pane")
    with suppress(ProcessLookupError):
        wait_for_end(command)
    assert is_alive(child)
