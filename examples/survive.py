"""Kill the server in the middle of a command, start it again, and miss nothing.

    python examples/survive.py                  # some six seconds
    python examples/survive.py --lines 1000 --pause 0.005

Starts a server of its own (temporary state folder, any free port) and a command that prints numbered lines,
kills the server with SIGKILL in the middle, starts it again, and reconnects with the session id and the
cursor. Then it checks that every line came exactly once and that the exit code is right. At the end nothing
of it is left running.

Needs only the `websockets` package beside outlive itself.
"""
# ruff: noqa: T201, INP001 -- a program for people: it prints, and it is no package

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

OUTLIVE = [sys.executable, "-m", "outlive"]
EXIT_CODE = 7  # what the command ends with: a code that nobody returns by accident
AWAY_S = 1.0  # how long the server stays dead
PATIENCE_S = 30.0


COLOURS = {"red": 31, "green": 32, "cyan": 36}  # ECMA-48, 8.3.117: SGR


def say(text: str, colour: str = "cyan") -> None:
    """Print a line of this program's own, in a colour where it goes to a terminal."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ
    print(text if plain else f"\x1b[{COLOURS[colour]}m{text}\x1b[0m", flush=True)


def own_environment() -> dict[str, str]:
    """Return the environment without settings that the reader's own server may have."""
    names = ("ALLOWED_COMMANDS", "MAX_BUFFER_SIZE", "MAX_SESSIONS")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OUTLIVE_") and name not in names
    }


class Server:
    """`outlive serve` on a state folder; inside the `with` block it can be killed and started again."""

    def __init__(self, state_dir: str) -> None:
        """Name the folder; nothing runs yet."""
        self.state_dir = state_dir
        self.port = 0  # 0: any free one; the second start takes the same port again
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"ws://127.0.0.1:{self.port}/ws/mcp"

    def start(self) -> None:
        """Start the server and wait until it says, in one line of JSON, that it is ready."""
        words = ["--print-json", "--log-level", "error"]
        words += [
            "--jsonrpc-port",
            str(self.port),
            "--mcp-port",
            "off",
            "--rest-port",
            "off",
            "--bridge-port",
            "off",
        ]
        self._process = subprocess.Popen(
            [*OUTLIVE, "serve", *words, "--state-dir", self.state_dir],
            env=own_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if not ready:
            raise RuntimeError("the server did not start; `outlive doctor` may know why")
        self.port = json.loads(ready)["ports"]["jsonrpc"]
        say(f"## server started (pid {self._process.pid}, port {self.port})")

    def end(self, number: signal.Signals) -> None:
        """Send the server a signal and wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE_S)
            if self._process.stdout is not None:
                self._process.stdout.close()
            colour = "red" if number == signal.SIGKILL else "cyan"
            say(f"## server (pid {self._process.pid}) ended by {number.name}", colour)
            self._process = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server, then the keeper with everything it keeps."""
        self.end(signal.SIGTERM)
        subprocess.run(
            [*OUTLIVE, "keeper", "stop", "--kill", "--state-dir", self.state_dir],
            env=own_environment(),
            check=True,
        )


@dataclass
class Client:
    """What a client has to remember to continue: the session id, and how much of each stream it has."""

    session_id: str = ""
    ends: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    lines: list[str] = field(default_factory=list)
    starts: int = 0
    completed: dict[str, Any] | None = None

    @property
    def cursor(self) -> str:
        """The position behind everything that has come."""
        return f"{self.ends['stdout']}.{self.ends['stderr']}"

    @contextlib.contextmanager
    def connected(self, url: str) -> Iterator[ClientConnection]:
        """Connect; with a session id, go on where the last connection broke off."""
        if self.session_id:
            url += f"?session_id={self.session_id}&cursor={self.cursor}"
        with connect(url, compression=None, proxy=None) as websocket:
            connected = json.loads(websocket.recv(PATIENCE_S))["params"]
            if self.session_id and not connected["resumed"]:
                raise RuntimeError("the session is not known any more")
            self.session_id = connected["session_id"]
            say(f"## {'connected again' if connected['resumed'] else 'connected'}, cursor {self.cursor}")
            yield websocket

    def read(self, websocket: ClientConnection, *, until: int | None = None) -> None:
        """Read up to the end of the process or of the connection, or until so many lines have come."""
        try:
            while self.completed is None and (until is None or len(self.lines) < until):
                self._take(json.loads(websocket.recv(PATIENCE_S)))
        except ConnectionClosed:
            say(f"## the connection is lost, cursor {self.cursor}", "red")

    def _take(self, message: dict[str, Any]) -> None:
        if "error" in message:
            raise RuntimeError(message["error"]["message"])
        params = message.get("params", {})
        match message.get("method"):
            case "process.started":
                self.starts += 1
            case "process.output":
                self.ends[params["type"]] = params["end"]
                self.lines.append(params["data"])
                print(params["data"], end="", flush=True)
            case "process.completed":
                self.completed = params


def is_alive(pid: int) -> bool:
    """Tell whether there is a process with that pid."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def demonstrate(server: Server, lines: int, pause_s: float) -> Client:
    """Run the command across the server's death; return what the client has seen."""
    client = Client()
    command = (
        f"for n in $(seq 1 {lines}); do echo line $n of {lines}; sleep {pause_s}; done; exit {EXIT_CODE}"
    )
    with client.connected(server.url) as websocket:
        request = {"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"command": command}}
        websocket.send(json.dumps(request))
        pid = json.loads(websocket.recv(PATIENCE_S))["result"]["pid"]
        client.read(websocket, until=lines // 3)
        server.end(signal.SIGKILL)
        client.read(websocket)  # what was on its way
    time.sleep(AWAY_S)
    say(f"## no server runs; the command (pid {pid}) {'goes on' if is_alive(pid) else 'has ended meanwhile'}")
    server.start()
    with client.connected(server.url) as websocket:
        client.read(websocket)
    return client


def judge(client: Client, lines: int) -> list[str]:
    """Return what is wrong; nothing, it is hoped."""
    expected = [f"line {number} of {lines}\n" for number in range(1, lines + 1)]
    problems = []
    if client.lines != expected:
        problems.append(f"{len(client.lines)} lines came, {lines} were written")
    if client.starts != 1:
        problems.append(f"process.started came {client.starts} times")
    if client.completed is None or client.completed["exit_code"] != EXIT_CODE:
        problems.append(f"the end was told as {client.completed}, and the exit code was {EXIT_CODE}")
    return problems


def main() -> int:
    """Read the arguments, run, and say how it went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=9, help="how many lines the command prints")
    parser.add_argument("--pause", type=float, default=0.35, help="seconds between two lines")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outlive-") as state_dir, Server(state_dir) as server:
        client = demonstrate(server, args.lines, args.pause)
    problems = judge(client, args.lines)
    for problem in problems:
        say(f"WRONG: {problem}", "red")
    if not problems:
        say(
            f"All {args.lines} lines came exactly once, and the exit code is {EXIT_CODE}, as it should be.",
            "green",
        )
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
