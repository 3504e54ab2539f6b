"""Follow a command while its server is killed: not a line is missing, and this program does nothing for it.

    python examples/client_survive.py

The client starts a server of its own on a temporary state folder. In the middle that server is killed with
SIGKILL; the client starts it again and goes on at the exact byte. At the end nothing of it is left running.
"""
# ruff: noqa: T201, INP001 -- a program for people: it prints, and it is no package

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from outlive.client import Client, Output

LINES = 40
COMMAND = f"for n in $(seq 1 {LINES}); do echo line $n; sleep 0.05; done; exit 7"


def server_pid(state_dir: str) -> int:
    """Return the pid of the server, as it tells in the state folder."""
    return int(json.loads(Path(state_dir, "server.json").read_text())["pid"])


def survive(state_dir: str) -> bool:
    """Start, follow, kill, go on following; tell whether all is as it should be."""
    text = b""
    with Client(state_dir, say=lambda line: print(f"## {line}")) as client:
        process = client.start(COMMAND)
        killed = None
        for item in process.follow():
            assert isinstance(item, Output), "nothing is released of so little output"
            text += item.data
            print(item.data.decode(), end="", flush=True)
            if killed is None and text.count(b"\n") >= LINES // 3:
                killed = server_pid(state_dir)
                os.kill(killed, signal.SIGKILL)
                print(f"## server (pid {killed}) killed, cursor {item.cursor}")
        code = process.wait().exit_code
    print(f"## exit code {code}")
    return text == b"".join(b"line %d\n" % n for n in range(1, LINES + 1)) and code == 7


def stop_server(state_dir: str) -> None:
    """End the server, and wait until it has ended: it writes into its folder until then."""
    server = os.pidfd_open(server_pid(state_dir))
    try:
        signal.pidfd_send_signal(server, signal.SIGTERM)
        select.select([server], [], [])
    finally:
        os.close(server)


def main() -> int:
    """Run on a folder of its own, and leave nothing behind."""
    # Others may serve on this machine: any free ports.
    os.environ.update(OUTLIVE_JSONRPC_PORT="0", OUTLIVE_MCP_PORT="0")
    with tempfile.TemporaryDirectory(prefix="outlive-") as state_dir:
        try:
            is_right = survive(state_dir)
        finally:
            stop_server(state_dir)
            stop = ["keeper", "stop", "--kill", "--state-dir", state_dir]
            subprocess.run([sys.executable, "-m", "outlive", *stop], check=True)
    print(f"All {LINES} lines came once." if is_right else "WRONG")
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
