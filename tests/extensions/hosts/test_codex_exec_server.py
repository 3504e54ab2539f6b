"""`codex exec-server`, as docs/comparison.md says: what it keeps of a command, and what it reaches."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.comparison.trial import EXIT_CODE, Trial, until
from tests.extensions.hosts.programs import words_for
from tests.support.processes import PATIENCE_S, descendants, is_alive
from tests.support.run_mark import marked


class ExecServer:
    """One server with a home of its own; nothing leaves this machine."""

    def __init__(self, folder: Path) -> None:
        home = folder / "home"
        home.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [*words_for("codex"), "exec-server", "--listen", "ws://127.0.0.1:0"],
            env={"HOME": str(home), "CODEX_HOME": str(home), "PATH": os.defpath} | marked(),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().split()[-1]

    def kill(self) -> None:
        """Kill it, and the launcher in JavaScript before it; nothing is done a second time."""
        assert self._process.stdout is not None
        if self._process.returncode is not None:
            return
        servers = [pid for pid in descendants(self._process.pid) if "exec-server" in _cmdline(pid)]
        for pid in servers:
            os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def _cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Caller:
    """One connection, after the handshake."""

    def __init__(self, url: str, *, session_id: str | None = None) -> None:
        self._socket: ClientConnection = connect(url, proxy=None, legacy=True)
        self._number = 0
        said = self.call("initialize", clientName="trial", resumeSessionId=session_id)
        self.session_id: str = said["result"]["sessionId"]
        self._socket.send(json.dumps({"method": "initialized", "params": {}}))

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Ask, and return the answer to it."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message: dict[str, Any] = json.loads(self._socket.recv(PATIENCE_S))
            if message.get("id") == self._number:
                return message

    def start(self, trial: Trial) -> None:
        """Start the trial's command as `trial`."""
        answer = self.call(
            "process/start",
            processId="trial",
            argv=["sh", "-c", trial.script()],
            cwd=trial.folder.as_uri(),
            env={"PATH": os.defpath},
            tty=False,
            pipeStdin=False,
            arg0=None,
        )
        assert answer["result"]["processId"] == "trial"

    def read(self) -> dict[str, Any]:
        """Return what is known of the command."""
        return self.call("process/read", processId="trial", afterSeq=None, maxBytes=65536, waitMs=100)

    def output(self) -> str:
        """Return its output."""
        return "".join(base64.b64decode(one["chunk"]).decode() for one in self.read()["result"]["chunks"])

    def drop(self) -> None:
        """Be gone without a word, as a client that was killed."""
        self._socket.socket.close()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """A command with a gate."""
    made = Trial(tmp_path)
    yield made
    made.close()


@pytest.fixture
def codex(tmp_path: Path) -> Iterator[ExecServer]:
    """A running server."""
    server = ExecServer(tmp_path)
    yield server
    server.kill()


def test_codex_gives_output_and_exit_code_to_a_client_that_returns_to_its_session(
    codex: ExecServer, trial: Trial
) -> None:
    """It must return within 30 s: then the session's commands are ended (DETACHED_SESSION_TTL in its
    source).
    """
    first = Caller(codex.url)
    first.start(trial)
    trial.child_in(until(first.output, "before"))
    first.drop()
    trial.open_gate()
    stranger = Caller(codex.url)
    assert "unknown process" in stranger.read()["error"]["message"]
    again = Caller(codex.url, session_id=first.session_id)
    until(again.output, "after")
    until(lambda: str(again.read()["result"]["exited"]), "True")
    assert again.read()["result"]["exitCode"] == EXIT_CODE


def test_codex_loses_what_it_ran_when_it_dies(codex: ExecServer, tmp_path: Path, trial: Trial) -> None:
    caller = Caller(codex.url)
    caller.start(trial)
    trial.child_in(until(caller.output, "before"))
    codex.kill()
    trial.open_gate()
    another = ExecServer(tmp_path)
    try:
        assert "unknown process" in Caller(another.url).read()["error"]["message"]
        with pytest.raises(KeyError):
            Caller(another.url, session_id=caller.session_id)
    finally:
        another.kill()


def test_ending_a_command_of_codex_leaves_its_setsid_child(codex: ExecServer, trial: Trial) -> None:
    caller = Caller(codex.url)
    caller.start(trial)
    child = trial.child_in(until(caller.output, "before"))
    assert caller.call("process/terminate", processId="trial")["result"]["running"] is True
    until(lambda: str(caller.read()["result"]["exited"]), "True")
    assert is_alive(child)
