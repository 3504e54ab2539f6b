"""A model of an agent's own shell, as an MCP server: Bash, BashOutput and KillShell with limits of Claude
Code's.

Written after its public documentation (https://code.claude.com/docs/en/tools-reference, "Bash tool
behavior"), not after its code. This is modelled, and nothing else:

* The folder that a foreground command ends in is where the next one begins. Variables do not hold. stdin is
  empty.
* Output of more than 30,000 characters is cut: its middle is left out (BASH_MAX_OUTPUT_LENGTH).
* A foreground command is killed after `timeout`: two minutes, at most ten (BASH_DEFAULT_TIMEOUT_MS,
  BASH_MAX_TIMEOUT_MS).
* `run_in_background` returns at once and has no limit. BashOutput shows what is new, with the state;
  KillShell kills the command's process group. A host that closes kills all of them; one that crashes leaves
  them running.

Not modelled, because versions differ in it: a file that keeps all of a long output, moving a command to the
background when its time is up, and waking the model at the end of a background command. OWN_BASH_MINUTE_S
scales the minutes, as the tasks' are scaled.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

_MINUTE_S = float(os.environ.get("OWN_BASH_MINUTE_S", "60"))
_DEFAULT_S, _MOST_S = 2 * _MINUTE_S, 10 * _MINUTE_S
_MOST_CHARS = 30_000

_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "number"}, {"type": "boolean"}


def _tool(
    name: str, about: str, required: list[str], members: dict[str, dict[str, str]]
) -> dict[str, object]:
    schema = {"type": "object", "properties": members, "required": required}
    return {"name": name, "description": about, "inputSchema": schema}


_TOOLS = [
    _tool(
        "Bash",
        "Executes a bash command and returns its output. The working directory persists between commands, "
        "the shell state does not. Optional timeout in milliseconds (up to 600000); by default commands "
        "time out after 120000 ms. Output over 30000 characters is truncated. With run_in_background the "
        "command runs in the background; read its output with BashOutput.",
        ["command"],
        {"command": _TEXT, "timeout": _NUMBER, "description": _TEXT, "run_in_background": _FLAG},
    ),
    _tool(
        "BashOutput",
        "Retrieves new output of a running or completed background shell, and its status. Takes an "
        "optional regular expression; lines that do not match are not shown and can not be read any more.",
        ["bash_id"],
        {"bash_id": _TEXT, "filter": _TEXT},
    ),
    _tool("KillShell", "Kills a running background shell by its ID.", ["shell_id"], {"shell_id": _TEXT}),
]


class OwnBash:
    """The shells of one host."""

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self._background: dict[str, tuple[subprocess.Popen[bytes], Path, int]] = {}

    def bash(self, arguments: dict[str, object]) -> tuple[str, bool]:
        """Run a command; return its answer and whether it is an error."""
        command = str(arguments["command"])
        with tempfile.NamedTemporaryFile(delete=False) as log, tempfile.NamedTemporaryFile() as after:
            line = f"trap 'pwd > {after.name}' EXIT\n{command}"
            if arguments.get("run_in_background"):
                return self._start(command, Path(log.name)), False
            process = self._popen(line, Path(log.name))
            given = arguments.get("timeout")
            timeout_s = min(float(str(given)) / 1000, _MOST_S) if given else _DEFAULT_S
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                text = _clipped(Path(log.name))
                Path(log.name).unlink()
                return f"Command timed out after {timeout_s:g}s\n{text}", True
            folder = Path(after.name).read_text().strip()
            if folder and Path(folder).is_dir():
                self._folder = Path(folder)
            text = _clipped(Path(log.name))
            Path(log.name).unlink()
            if process.returncode:
                return f"Exit code {process.returncode}\n{text}", True
            return text or "(no output)", False

    def output(self, arguments: dict[str, object]) -> tuple[str, bool]:
        """Return what a background shell has written since the last look."""
        name = str(arguments["bash_id"])
        if name not in self._background:
            return f"No shell found with ID: {name}", True
        process, log, seen = self._background[name]
        code = process.poll()
        data = log.read_bytes()
        self._background[name] = (process, log, len(data))
        text = _clip(data[seen:].decode(errors="replace"))
        if wanted := arguments.get("filter"):
            text = "\n".join(line for line in text.splitlines() if re.search(str(wanted), line))
        status = "running" if code is None else "completed" if code == 0 else "failed"
        ending = "" if code is None else f"<exit_code>{code}</exit_code>\n"
        return f"<status>{status}</status>\n{ending}<stdout>\n{text}\n</stdout>", False

    def kill(self, arguments: dict[str, object]) -> tuple[str, bool]:
        """Kill a background shell."""
        name = str(arguments["shell_id"])
        if name not in self._background:
            return f"No shell found with ID: {name}", True
        process, _, _ = self._background[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"Successfully killed shell: {name}", False

    def end(self) -> None:
        """Kill what runs, as a host does that ends."""
        for name in list(self._background):
            self.kill({"shell_id": name})

    def _start(self, command: str, log: Path) -> str:
        name = f"bash_{len(self._background) + 1}"
        self._background[name] = (self._popen(command, log), log, 0)
        return f"Command running in background with ID: {name}"

    def _popen(self, line: str, log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                ["bash", "-c", line],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _clipped(log: Path) -> str:
    return _clip(log.read_bytes().decode(errors="replace").strip("\n"))


def _clip(text: str) -> str:
    if len(text) <= _MOST_CHARS:
        return text
    half = _MOST_CHARS // 2
    lines = text[half:-half].count("\n")
    return f"{text[:half]}\n\n... [{lines} lines truncated] ...\n\n{text[-half:]}"


def main() -> None:
    """Serve MCP on stdin and stdout until it ends; calls run side by side."""
    shells = OwnBash()
    tools = {"Bash": shells.bash, "BashOutput": shells.output, "KillShell": shells.kill}
    writing = threading.Lock()

    def answer(request_id: object, result: object) -> None:
        with writing:
            print(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}), flush=True)

    def call(request_id: object, name: str, arguments: dict[str, object]) -> None:
        text, is_error = tools[name](arguments)
        answer(request_id, {"content": [{"type": "text", "text": text}], "isError": is_error})

    for line in sys.stdin:
        message = json.loads(line)
        request_id, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case "initialize":
                version = params["protocolVersion"]
                info = {"name": "own-bash-model", "version": "1"}
                answer(
                    request_id,
                    {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
                )
            case "tools/list":
                answer(request_id, {"tools": _TOOLS})
            case "tools/call":
                words = (request_id, params["name"], params.get("arguments", {}))
                threading.Thread(target=call, args=words, daemon=True).start()
    shells.end()


if __name__ == "__main__":
    main()
