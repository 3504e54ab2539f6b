"""A real Chromium without a screen, driven by Playwright: `Chromium`, its windows, and `pages`, which serves
folders to them.

Playwright is imported when the first browser is started: tests are collected without it, and skipped where it
is not installed.
"""

import contextlib
import functools
import http.server
import importlib
import importlib.util
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.vscode.installed import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Program
    from playwright.sync_api import CDPSession, Locator, Page
    from playwright.sync_api._generated import LocatorAssertions

PATIENCE_S = 60.0
_WORDS = [
    "--no-sandbox",  # it runs as root in continuous integration, and shows pages of ours
    "--disable-gpu",
    "--disable-quic",
]
_SHOWN = """[...document.querySelectorAll(".xterm-rows > div")]
    .map((row) => row.textContent.replaceAll("\\u00a0", " ").trimEnd()).join("\\n").trimEnd()"""
_POLLED_MS = 50  # how often a page is asked in itself whether it shows something


def expect(seen: "Locator") -> "LocatorAssertions":
    """Return Playwright's assertions of what a locator finds: each waits until it holds."""
    made: LocatorAssertions = importlib.import_module("playwright.sync_api").expect(seen)
    return made


class Browser:
    """One window of it: a page with cookies, storage and a cache of its own. Methods block."""

    def __init__(self, page: "Page") -> None:
        self.page = page
        self.console: list[str] = []  # what the page's console has said, oldest first
        page.on("console", lambda message: self.console.append(message.text))

    @functools.cached_property
    def _devtools(self) -> "CDPSession":
        return self.page.context.new_cdp_session(self.page)

    def open(self, url: str) -> None:
        """Open a page, or load it anew."""
        self.page.goto(url)

    def reload(self) -> None:
        """Load the page anew, as F5 does."""
        self.page.reload()

    def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page answers as JSON
        """Return what an expression is in the page; promises are awaited."""
        return self.page.evaluate(expression)

    @property
    def place(self) -> str:
        """What the address says behind its `#`, with it."""
        return str(self.page.evaluate("location.hash"))

    def go(self, place: str) -> None:
        """Type another place of the same page into the address: `#/list`."""
        self.page.evaluate("(place) => { location.hash = place; }", place)

    def type(self, text: str, *, into: str = ".xterm-helper-textarea") -> None:
        """Press keys; what the selector names, a page's terminal for instance, gets the focus first."""
        self.page.locator(into).first.focus()
        self.page.keyboard.type(text)

    def click(self, selector: str) -> None:
        """Click into the middle of what a selector names, once it is there, stands still, and nothing lies
        above it.
        """
        self.page.locator(selector).first.click()

    @property
    def text(self) -> str:
        """All that the page shows as text."""
        return str(self.page.inner_text("body"))

    def until_text(self, text: str) -> str:
        """Return what the page shows once a text is in it."""
        return self._until_part(text, "document.body.innerText")

    @property
    def shown(self) -> str:
        """The rows of the page's terminal, without blank ones at the end."""
        return str(self.value(_SHOWN))

    def until_shown(self, text: str) -> str:
        """Return what the terminal shows once a text is in it."""
        return self._until_part(text, _SHOWN)

    def _until_part(self, text: str, whole: str) -> str:
        """Return what an expression is once a text is in it, asked in the page."""
        asked = f"(text) => {{ const whole = {whole}; return whole.includes(text) && {{whole}}; }}"
        try:
            found = self.page.wait_for_function(asked, arg=text, polling=_POLLED_MS)
        except Exception as error:
            error.add_note(f"not there: {text!r} in {self.value(whole)!r} {self.console}")
            raise
        return str(found.json_value()["whole"])

    def until(self, is_so: Callable[[], object], what: Callable[[], str] = lambda: "this") -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"not so: {what()}"
            time.sleep(0.02)

    def do(self, method: str, **words: object) -> dict[str, Any]:
        """Send one command of the DevTools protocol and return its result."""
        result: dict[str, Any] = self._devtools.send(method, words)
        return result


class Chromium:
    """One running Chromium, which has windows that know nothing of each other."""

    def __init__(self, program: "Program") -> None:
        self._program = program

    @contextlib.contextmanager
    def window(
        self,
        *,
        size: tuple[int, int] = (1280, 720),
        is_phone: bool = False,
        colours: Literal["light", "dark"] = "light",
        script: str = "",
    ) -> Iterator[Browser]:
        """Yield a new window.

        Args:
            size: Its width and height, in pixels.
            is_phone: Lay pages out as a phone does, which knows their `viewport`.
            colours: What the system is set to.
            script: What each of its pages runs before its own scripts.
        """
        context = self._program.new_context(
            viewport={"width": size[0], "height": size[1]}, is_mobile=is_phone, color_scheme=colours
        )
        context.set_default_timeout(PATIENCE_S * 1000)
        if script:
            context.add_init_script(script)
        try:
            yield Browser(context.new_page())
        finally:
            context.close()


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """Yield a browser that nobody has used.

    Skip the test where there is none, unless OUTLIVE_REQUIRE_PROGRAMS forbids that.

    The thread counts as one that runs an event loop until it has ended: `asyncio.run` refuses there.
    """
    # Of one make: the first leaves out the browser's own windows, which nobody sees here, and takes a third
    # of the processor time.
    known = ("chromium-headless-shell", "chromium", "google-chrome")
    program = next(filter(None, map(shutil.which, known)), None)
    reason = None if program else "no browser is installed (Debian: apt-get install chromium-headless-shell)"
    if importlib.util.find_spec("playwright") is None:
        reason = "Playwright is not installed: scripts/browser.sh"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_PROGRAMS")
    api = importlib.import_module("playwright.sync_api")
    api.expect.set_options(timeout=PATIENCE_S * 1000)
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=_WORDS)
        try:
            yield Chromium(running)
        finally:
            running.close()


@contextlib.contextmanager
def browser(*, script: str = "") -> Iterator[Browser]:
    """Yield the only window of a browser of its own."""
    with chromium() as running, running.window(script=script) as opened:
        yield opened


@pytest.fixture(scope="package")
def running_chromium() -> Iterator[Chromium]:
    """A browser; it ends with the folder's tests, since no event loop can run beside it."""
    with chromium() as running:
        yield running


@pytest.fixture
def window(running_chromium: Chromium) -> Iterator[Browser]:
    """A window that has seen nothing yet."""
    with running_chromium.window() as opened:
        yield opened


@pytest.fixture
def phone(running_chromium: Chromium) -> Iterator[Browser]:
    """A window as small as a phone's, which lays pages out as one does."""
    with running_chromium.window(size=(375, 700), is_phone=True) as opened:
        yield opened


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """What `python -m http.server` serves with, without its log."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def pages(folder: Path, *, packages: Path | None = None) -> Iterator[str]:
    """Serve a new folder, with `packages` as its `node_modules`, as `python -m http.server` does.

    Yield its origin.
    """
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
