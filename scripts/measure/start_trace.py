"""Count the functions and files that one start touches: `python scripts/measure/start_trace.py [--calls]`.

A real server and its keeper run with `trace/sitecustomize.py`. After some starts to warm up, one `execute` is
sent over JSON-RPC as a raw WebSocket client sends it, and every call of a function of the product is
recorded, in the server and in the keeper, until the response and `process.started` are there and the
command's end was recorded or a second has passed.
"""

import argparse
import collections
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).resolve().parents[2]
_WARM_UP = 5
_SETTLED_S = 1.0


def _execute(client: ClientConnection, number: int) -> None:
    request = {"jsonrpc": "2.0", "id": number, "method": "execute", "params": _PARAMS}
    client.send(json.dumps(request))
    seen: set[str] = set()
    while not {"response", "process.started"} <= seen:
        message = json.loads(client.recv(timeout=20))
        seen.add("response" if message.get("id") == number else str(message.get("method")))


_PARAMS = {"argv": ["/bin/sleep", "30"], "concurrent": True}


def trace() -> dict[str, list[tuple[str, str]]]:
    """Return the calls of one start in order, by the process that made them: "server", "keeper"."""
    with tempfile.TemporaryDirectory(prefix="outlive-trace-") as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "START_TRACE": name,
            "PYTHONPATH": f"{ROOT / 'scripts' / 'measure' / 'trace'}:{ROOT / 'src'}",
            "OUTLIVE_STATE_DIR": f"{name}/state",
        }
        outlive = [sys.executable, "-m", "outlive"]
        server = subprocess.Popen(
            [
                *outlive,
                "serve",
                "--print-json",
                "--jsonrpc-port",
                "0",
                "--mcp-port",
                "off",
                "--rest-port",
                "off",
                "--bridge-port",
                "off",
            ],
            env=environment,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            if server.stdout is None:
                raise AssertionError("the server's output is a pipe")
            ready = json.loads(server.stdout.readline())
            with connect(f"ws://127.0.0.1:{ready['ports']['jsonrpc']}/ws/mcp") as client:
                for number in range(_WARM_UP):
                    _execute(client, number)
                time.sleep(_SETTLED_S)
                (folder / "on").touch()
                _execute(client, _WARM_UP)
                (folder / "on").unlink()
                _execute(client, _WARM_UP + 1)  # each process writes at its next call
                time.sleep(_SETTLED_S)
            return {
                "server" if int(path.stem) == server.pid else f"keeper {path.stem}": json.loads(
                    path.read_text()
                )
                for path in folder.glob("*.json")
            }
        finally:
            subprocess.run(
                [*outlive, "keeper", "stop", "--kill"], env=environment, check=False, capture_output=True
            )
            server.send_signal(signal.SIGTERM)
            server.wait(20)


def _returns(files: Iterable[str]) -> int:
    """Return how often a reader comes back to a file that was left before."""
    visits = [file for file, _ in itertools.groupby(files)]
    return len(visits) - len(set(visits))


def count(calls: dict[str, list[tuple[str, str]]]) -> dict[str, int]:
    """Return how many calls, functions, files and returns to a file there are, in all processes together."""
    functions = {(file, name) for part in calls.values() for file, name in part}
    return {
        "calls": sum(len(part) for part in calls.values()),
        "functions": len(functions),
        "files": len({file for file, _ in functions}),
        "returns": sum(_returns(file for file, _ in part) for part in calls.values()),
    }


def main() -> None:
    """Print the counts, and with `--calls` every call in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args()
    calls = trace()
    for process, part in calls.items():
        print(process, count({process: part}))  # noqa: T201 -- its output
        if options.calls:
            for (file, name), times in collections.Counter(map(tuple, part)).items():
                print(f"  {file:<50} {name} {times}")  # noqa: T201 -- its output
    print("together", count(calls))  # noqa: T201 -- its output


if __name__ == "__main__":
    main()
