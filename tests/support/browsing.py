"""A real Chromium without a screen, driven over its DevTools protocol: `Browser`, and `pages`, which serves folders to it."""

import contextlib
import functools
import http.client
import http.server
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.vscode.installed import skip_or_fail

PATIENCE_S = 30.0
_WORDS = [
    "--headless",
    "--no-sandbox",  # it runs as root in continuous integration, and shows pages of ours
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
]
_SHOWN = """[...document.querySelectorAll(".xterm-rows > div")]
    .map((row) => row.textContent.replaceAll("\\u00a0", " ").trimEnd()).join("\\n").trimEnd()"""

# The middle of an element that was at the same place for two frames, and would take a click there; null as long as there is none.
_PLACE = """async (selector) => {
    const one = document.querySelector(selector);
    if (one === null) return null;
    one.scrollIntoView({block: "nearest"});
    const middle = () => { const box = one.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; };
    const frame = () => new Promise((then) => requestAnimationFrame(then));
    const before = middle();
    await frame();
    await frame();
    const after = middle();
    const hit = document.elementFromPoint(...after);
    const isSame = before[0] === after[0] && before[1] === after[1];
    return isSame && hit !== null && (one.contains(hit) || hit.contains(one)) ? after : null;
}"""


class Browser:
    """One window of it. Methods block."""

    def __init__(self, devtools: ClientConnection) -> None:
        """Sit down before a window whose DevTools are connected."""
        self._devtools = devtools
        self._count = 0
        self.console: list[str] = []  # what the page's console has said, oldest first

    def open(self, url: str) -> None:
        """Open a page, or load it anew."""
        self.do("Page.navigate", url=url)
        self.until(
            lambda: self.value(f"location.href === {json.dumps(url)} && document.readyState === 'complete'")
        )

    def reload(self) -> None:
        """Load the page anew, as F5 does."""
        self.value("window.isOld = true")
        self.do("Page.reload")
        self.until(lambda: self.value("!window.isOld && document.readyState === 'complete'"))

    def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page answers as JSON
        """Return what an expression is in the page; promises are awaited."""
        answer = self.do("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def type(self, text: str, *, into: str = ".xterm-helper-textarea") -> None:
        """Press keys; what the selector names, a page's terminal for instance, gets the focus first."""
        self.value(f"document.querySelector({json.dumps(into)}).focus()")
        for mark in text:
            known: dict[str, object] = {"text": mark, "key": mark}
            if mark == "\r":
                known = {"text": mark, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
            self.do("Input.dispatchKeyEvent", type="keyDown", **known)
            self.do("Input.dispatchKeyEvent", type="keyUp", **{**known, "text": ""})

    def click(self, selector: str) -> None:
        """Click into the middle of what a selector names, once it is there, stands still, and nothing lies above it."""
        asked = f"({_PLACE})({json.dumps(selector)})"
        middle: list[float] | None = None

        def is_reachable() -> bool:
            nonlocal middle
            middle = self.value(asked)
            return middle is not None

        self.until(is_reachable, lambda: f"{selector} can be clicked: {self.text}")
        assert middle is not None
        for kind in ("mousePressed", "mouseReleased"):
            self.do(
                "Input.dispatchMouseEvent", type=kind, x=middle[0], y=middle[1], button="left", clickCount=1
            )

    @property
    def text(self) -> str:
        """All that the page shows as text."""
        return str(self.value("document.body.innerText"))

    def until_text(self, text: str) -> str:
        """Return what the page shows once a text is in it."""
        self.until(lambda: text in self.text, lambda: f"{text!r}; {self.text!r} {self.console}")
        return self.text

    @property
    def shown(self) -> str:
        """The rows of the page's terminal, without blank ones at the end."""
        return str(self.value(_SHOWN))

    def until_shown(self, text: str) -> str:
        """Return what the terminal shows once a text is in it."""
        self.until(lambda: text in self.shown, lambda: f"{text!r}; {self.shown!r} {self.console}")
        return self.shown

    def until(self, is_so: Callable[[], object], what: Callable[[], str] = lambda: "this") -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"not so: {what()}"
            time.sleep(0.02)

    def do(self, method: str, **words: object) -> dict[str, Any]:
        """Send one command of the DevTools protocol and return its result; take note of what the page says meanwhile."""
        self._count += 1
        self._devtools.send(json.dumps({"id": self._count, "method": method, "params": words}))
        while True:
            message = json.loads(self._devtools.recv(timeout=PATIENCE_S))
            if message.get("method") == "Log.entryAdded":
                self.console.append(message["params"]["entry"]["text"])
            if message.get("id") == self._count:
                assert "error" not in message, f"{method} {words}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result


@contextlib.contextmanager
def browser(folder: Path, *, required_by: str = "OUTLIVE_REQUIRE_PROGRAMS") -> Iterator[Browser]:
    """Yield a browser that nobody has used; skip the test where there is none, unless the variable forbids that."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    reason = None if program else "no browser is installed (Debian: apt-get install chromium)"
    skip_or_fail(reason, required_by=required_by)
    assert program is not None
    words = [program, *_WORDS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with (folder / "browser.log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        with connect(_address(folder / "profile/DevToolsActivePort"), max_size=None) as devtools:
            opened = Browser(devtools)
            for domain in ("Page", "Runtime", "Log"):
                opened.do(f"{domain}.enable")
            yield opened
    except AssertionError as error:
        error.add_note((folder / "browser.log").read_text(errors="replace")[-2000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(told: Path) -> str:
    """Return the address of the first window's DevTools, once the browser has written its port down."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError, ValueError, LookupError):
            connection = http.client.HTTPConnection(
                "127.0.0.1", int(told.read_text().splitlines()[0]), timeout=5
            )
            with contextlib.closing(connection):
                connection.request("GET", "/json/list")
                windows = json.load(connection.getresponse())
            return next(str(one["webSocketDebuggerUrl"]) for one in windows if one["type"] == "page")
        assert time.monotonic() < deadline, "the browser did not come up"
        time.sleep(0.02)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """What `python -m http.server` serves with, without its log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def pages(folder: Path, *, packages: Path | None = None) -> Iterator[str]:
    """Serve a new folder, with `packages` as its `node_modules`, as `python -m http.server` does; yield its origin."""
    folder.mkdir()
    if packages is not None:
        os.symlink(packages, folder / "node_modules")
    serving = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))
    )
    thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://localhost:{serving.server_port}"
    finally:
        serving.shutdown()
        thread.join()
        serving.server_close()
