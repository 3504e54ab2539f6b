"""A whole client for the JSON-RPC door, and three patterns that real clients need.

    python examples/jsonrpc_client.py                        # runs claude, found on the PATH of the command
    python examples/jsonrpc_client.py 'echo one; echo two'   # runs another command
    python examples/jsonrpc_client.py --pattern timeout --seconds 2 'sleep 60'
    python examples/jsonrpc_client.py --pattern progress --seconds 5 'make'
    python examples/jsonrpc_client.py --pattern resilient 'seq 1 1000000'

Needs only the `websockets` package.
"""
# ruff: noqa: T201, INP001 -- a program for people: it prints, and it is no package

import argparse
import asyncio
import json
import time
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

URL = "ws://localhost:8003/ws/mcp"
CLAUDE = "bash -c 'PATH={path}:$PATH claude --print \"Write a haiku\"'"


async def execute_with_mcp(url: str, command: str) -> int:
    """Run a command, print what happens and return its exit code."""
    # 1. Connect to the server. Output of many lines comes in many small messages: compressing them gains
    #    nothing.
    async with connect(url, compression=None, proxy=None) as websocket:
        # 2. Receive the confirmation of the connection.
        connected = json.loads(await websocket.recv())
        print(f"Session: {connected['params']['session_id']}")

        # 3. Execute the command.
        await websocket.send(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"command": command}})
        )

        # 4. Process messages.
        while True:
            msg = json.loads(await websocket.recv())

            if msg.get("id") == 1:  # the response to execute
                if "error" in msg:
                    print(f"Refused: {msg['error']['message']} ({msg['error']['data']['hint']})")
                    return 1
                print(f"Process started: PID {msg['result']['pid']}")

            elif msg.get("method") == "process.started":
                print("The command is initializing...")

            elif msg.get("method") == "process.output":
                # Stream the output in real time.
                print(msg["params"]["data"], end="", flush=True)

            elif msg.get("method") == "process.completed":
                exit_code = msg["params"]["exit_code"]
                status = "success" if exit_code == 0 else "failed"
                print(f"\nThe command {status} with exit code {exit_code}")
                return int(exit_code)


class Client:
    """One session that may live on several connections: it remembers what it needs to continue."""

    def __init__(self, url: str) -> None:
        """Prepare; `connect` does the work."""
        self.url = url
        self.session_id: str | None = None
        self.process_id: str | None = None
        self.output: list[str] = []
        self._ends = {"stdout": 0, "stderr": 0}
        self._websocket: ClientConnection | None = None

    async def connect(self) -> None:
        """Connect, or reconnect: with the session id and a cursor the output continues where it stopped."""
        await self.close()
        url = self.url
        if self.session_id is not None:
            url += f"?session_id={self.session_id}&cursor={self._ends['stdout']}.{self._ends['stderr']}"
        self._websocket = await connect(url, compression=None, proxy=None)
        connected = json.loads(await self._websocket.recv())
        if self.session_id is not None and not connected["params"]["resumed"]:
            self.process_id = None  # the session is gone, and what ran in it was cancelled: begin anew
            self.output.clear()
            self._ends = {"stdout": 0, "stderr": 0}
        elif self.process_id is None and connected["params"]["processes"]:
            # The answer to `execute` was lost with the connection; the command runs all the same.
            self.process_id = connected["params"]["processes"][-1]["process_id"]
        self.session_id = connected["params"]["session_id"]

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._websocket is not None:
            await self._websocket.close()
            self._websocket = None

    async def send(self, method: str, **params: Any) -> None:  # noqa: ANN401 -- any JSON value
        """Send a request; its response comes with the other messages."""
        assert self._websocket is not None, "connect first"
        await self._websocket.send(
            json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        )

    async def recv(self, patience_s: float) -> dict[str, Any] | None:
        """Return the next message, None when none came in time; remember output and position."""
        assert self._websocket is not None, "connect first"
        try:
            frame = await asyncio.wait_for(self._websocket.recv(), patience_s)
        except TimeoutError:
            return None
        msg: dict[str, Any] = json.loads(frame)
        if "error" in msg:
            raise RuntimeError(msg["error"]["message"])
        if msg.get("id") == "execute":
            self.process_id = msg["result"]["process_id"]
        elif msg.get("method") == "process.output":
            self.output.append(msg["params"]["data"])
            self._ends[msg["params"]["type"]] = msg["params"]["end"]
        return msg


def is_completed(msg: dict[str, Any] | None) -> bool:
    """Tell whether a message is the end of the process."""
    return msg is not None and msg.get("method") == "process.completed"


async def execute_with_timeout(client: Client, command: str, timeout_sec: float = 300) -> dict[str, Any]:
    """Pattern 1: give a command so much time, then cancel it; return how it ended."""
    await client.send("execute", command=command)
    deadline = time.monotonic() + timeout_sec
    while time.monotonic() < deadline:
        msg = await client.recv(min(1.0, timeout_sec))
        if msg is not None and is_completed(msg):
            return dict(msg["params"])
    print(f"Timeout after {timeout_sec} s: cancelling")
    await client.send("control", type="CANCEL")
    while not is_completed(msg := await client.recv(60)):
        pass
    assert msg is not None
    return dict(msg["params"])


async def monitor_progress(client: Client, command: str, silence_sec: float = 120) -> dict[str, Any]:
    """Pattern 2: show output as it comes; warn and cancel when there is none for too long; return the end."""
    await client.send("execute", command=command)
    last_output = time.monotonic()
    warned = False
    while True:
        msg = await client.recv(min(1.0, silence_sec))
        if msg is not None and is_completed(msg):
            return dict(msg["params"])
        if msg is not None and msg.get("method") == "process.output":
            last_output = time.monotonic()
            print(msg["params"]["data"], end="", flush=True)
        elif time.monotonic() - last_output > silence_sec and not warned:
            print(f"Warning: No output for {silence_sec} s: cancelling")
            warned = True
            await client.send("control", type="CANCEL")


async def resilient_execute(client: Client, command: str, max_retries: int = 30) -> dict[str, Any]:
    """Pattern 3: survive a lost connection or a restarted server; return how the command ended.

    The command is never started twice while it still runs: after a reconnect its output simply goes on.
    """
    for attempt in range(max_retries):
        try:
            if attempt > 0:
                await asyncio.sleep(min(2.0, 0.1 * 2**attempt))
                await client.connect()
                print(f"Reconnected (attempt {attempt})")
            if client.process_id is None:
                await client.send("execute", command=command)
            while not is_completed(msg := await client.recv(3600)):
                pass
            assert msg is not None
            return dict(msg["params"])
        except (ConnectionClosed, InvalidHandshake, OSError):
            if attempt == max_retries - 1:
                raise
    raise AssertionError("max_retries must be at least 1")


async def run_pattern(args: argparse.Namespace, command: str) -> int:
    """Run one of the patterns and say how it ended."""
    client = Client(args.url)
    await client.connect()
    try:
        if args.pattern == "timeout":
            completed = await execute_with_timeout(client, command, args.seconds)
        elif args.pattern == "progress":
            completed = await monitor_progress(client, command, args.seconds)
        else:
            completed = await resilient_execute(client, command)
    finally:
        await client.close()
    if args.pattern != "progress":
        print("".join(client.output), end="", flush=True)
    print(f"\nThe command {completed['status']} with exit code {completed['exit_code']}")
    return 0 if completed["exit_code"] == 0 else 1


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", help="what to run (default: ask claude for a haiku)")
    parser.add_argument("--url", default=URL)
    parser.add_argument("--path", default="/usr/local/bin", help="the folder where claude lies")
    parser.add_argument("--pattern", choices=["timeout", "progress", "resilient"])
    parser.add_argument("--seconds", type=float, default=120.0, help="the patterns' patience")
    args = parser.parse_args()
    command = args.command or CLAUDE.format(path=args.path)
    if args.pattern:
        return asyncio.run(run_pattern(args, command))
    exit_code = asyncio.run(execute_with_mcp(args.url, command))
    return exit_code if exit_code >= 0 else 128 - exit_code


if __name__ == "__main__":
    raise SystemExit(main())
