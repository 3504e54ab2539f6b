"""The documented `curl` commands, run as they are printed by the real program: only port, session id and pid
are put in.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.mcp_http.raw_caller import RawCaller
from tests.support.processes import is_alive, wait_dead

_START = """curl -X POST http://localhost:8888/mcp \\
  -H "Content-Type: application/json" \\
  -H "Accept: text/event-stream" \\
  -H "Mcp-Session-Id: YOUR_SESSION_ID" \\
  -d '{
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
      "name": "execute_background_linux_shell_command",
      "arguments": {"cmd": "sleep 60"}
    }
  }'
"""
_LIST = """curl -X POST http://localhost:8888/mcp \\
  -H "Content-Type: application/json" \\
  -H "Mcp-Session-Id: YOUR_SESSION_ID" \\
  -d '{
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {
      "name": "list_processes",
      "arguments": {}
    }
  }'
"""
_CANCEL = """curl -X POST http://localhost:8888/mcp \\
  -H "Content-Type: application/json" \\
  -H "Mcp-Session-Id: YOUR_SESSION_ID" \\
  -d '{
    "jsonrpc": "2.0",
    "method": "notifications/cancelled",
    "params": {
      "requestId": "1",
      "reason": "User requested"
    }
  }'
"""
_TERMINATE = """curl -X POST http://localhost:8888/mcp \\
  -H "Content-Type: application/json" \\
  -H "Mcp-Session-Id: YOUR_SESSION_ID" \\
  -d '{
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {
      "name": "terminate_process",
      "arguments": {"pid": 12345}
    }
  }'
"""


class _Terminal:
    """A person's terminal: curl writes each line as it comes, and its own settings tell us the status."""

    def __init__(self, caller: RawCaller, home: Path) -> None:
        self._caller = caller
        self._environment = {**os.environ, "CURL_HOME": str(home)}
        (home / ".curlrc").write_text('silent\nwrite-out = "\\n%{http_code}\\n"\n')

    def _typed(self, printed: str, pid: int | None = None) -> list[str]:
        url = self._caller.url.replace("127.0.0.1", "localhost")
        real = printed.replace("http://localhost:8888/mcp", url)
        real = real.replace("YOUR_SESSION_ID", self._caller.session_id)
        return ["bash", "-c", real if pid is None else real.replace("12345", str(pid))]

    def run(self, printed: str, pid: int | None = None) -> tuple[int, str]:
        """Run one command to its end; return the HTTP status and the body."""
        words = self._typed(printed, pid)
        ran = subprocess.run(
            words, env=self._environment, capture_output=True, text=True, timeout=30, check=True
        )
        body, _, status = ran.stdout.rstrip("\n").rpartition("\n")
        return int(status), body

    @contextmanager
    def running(self, printed: str) -> Iterator[Iterator[str]]:
        """Run one command on a pseudo-terminal and yield its lines as they come."""
        master, slave = os.openpty()
        words = self._typed(printed)
        with subprocess.Popen(words, env=self._environment, stdout=slave) as curl:
            os.close(slave)
            with open(master, encoding="utf-8", newline="\r\n", buffering=1) as screen:
                yield (line.rstrip("\r\n") for line in _until_hung_up(screen))
        assert curl.returncode == 0


def _until_hung_up(screen: Iterator[str]) -> Iterator[str]:
    try:
        yield from screen
    except OSError:  # EIO: the other end was closed (pty(7))
        return


@pytest.fixture
def terminal(caller: RawCaller, tmp_path: Path) -> _Terminal:
    """A terminal with curl, which .ci/run installs."""
    if shutil.which("curl") is None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), "curl is missing"
        pytest.skip("curl is not installed")
    return _Terminal(caller, tmp_path)


@pytest.mark.promise("S4.11", "S4.1.initialized", "S4.3", "S4.5", "S4.6", "S4.6.result", "M.raw")
def test_start_list_and_cancel_work_as_printed(terminal: _Terminal) -> None:
    with terminal.running(_START) as lines:
        assert next(lines) == "event: process_started"
        started = json.loads(next(lines).removeprefix("data: "))
        assert started == {"pid": started["pid"], "status": "started", "request_id": "1"}
        assert next(lines) == ""

        status, body = terminal.run(_LIST)
        listed = json.loads(body)["result"]["content"][0]["text"]
        block = f"PID: {started['pid']}\n  Request ID: 1\n  Command: sleep 60\n  Status: running\n  Started: "
        assert (status, block in listed) == (200, True)

        assert terminal.run(_CANCEL) == (204, "")
        rest = [line for line in lines if line]
    assert [rest[0], rest[-1]] == ["event: message", "200"]
    last = json.loads(rest[1].removeprefix("data: "))
    assert (last["jsonrpc"], last["id"], last["result"]["isError"]) == ("2.0", 1, True)
    assert last["result"]["content"][0]["text"].startswith("[Process was terminated]")
    assert not is_alive(started["pid"])


@pytest.mark.promise("S4.11", "S4.4", "S4.6.result")
def test_terminating_by_pid_works_as_printed(terminal: _Terminal) -> None:
    with terminal.running(_START) as lines:
        next(lines)
        pid = json.loads(next(lines).removeprefix("data: "))["pid"]
        status, body = terminal.run(_TERMINATE, pid)
        answer = json.loads(body)
        assert (status, answer["id"], answer["result"]["isError"]) == (200, 3, False)
        assert answer["result"]["content"] == [
            {
                "type": "text",
                "text": f"Process {pid} terminated successfully\nRequest ID: 1\nSignal: SIGTERM\n"
                "Reason: Manual termination via terminate_process tool",
            }
        ]
        rest = [line for line in lines if line]
    assert json.loads(rest[1].removeprefix("data: "))["result"]["isError"] is True
    anyio.run(wait_dead, pid)
