"""The two pages of docs/ws-terminal.md in a real Chromium, served by another port of this machine."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.docs.pages import blocks, page, section
from tests.house.sources import ROOT
from tests.support.browsing import Browser, Chromium, pages
from tests.support.server import OutliveServer, run_outlive
from tests.terminal_socket.viewing import written
from tests.vscode.installed import skip_or_fail

pytestmark = pytest.mark.slow

_PACKAGES = ROOT / ".xterm/node_modules"
_REQUIRED = "OUTLIVE_REQUIRE_XTERM"
_ADDRESS = "ws://127.0.0.1:8003/ws/terminal/"
# Counts what a page fetches; it is in the page before any script of the page's own.
_WATCHED = """
window.dialled = []; window.fetched = 0; window.chosen = []; window.ends = [];
window.WebSocket = class extends WebSocket {
    constructor(address, protocols) {
        super(address, protocols);
        dialled.push(address);
        this.addEventListener("open", () => chosen.push(this.protocol));
        this.addEventListener("close", ({ code }) => ends.push(code));
        this.addEventListener("message", ({ data }) => (fetched += data.byteLength ?? data.size ?? 0));
    }
};
"""


@pytest.fixture
def shown(running_chromium: Chromium) -> Iterator[Browser]:
    """A window whose pages count what they fetch."""
    with running_chromium.window(script=_WATCHED) as opened:
        yield opened


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[str, OutliveServer, OutliveServer]]:
    """Serve both pages; yield their origin, a server that lets it in, and one that was told nothing."""
    docs = page("docs/ws-terminal.md")
    (smallest,) = blocks(section(docs, "## The smallest page"), "html")
    (whole,) = [text for text in blocks(docs, "html") if text != smallest]
    (attach,) = [text for text in blocks(docs, "js") if text.startswith("function attach")]
    reason = None if (_PACKAGES / "@xterm/xterm").exists() else "xterm.js is not installed: scripts/xterm.sh"
    skip_or_fail(reason, required_by=_REQUIRED)
    with (
        pages(folder / "pages", packages=_PACKAGES) as origin,
        OutliveServer(folder / "open", args=("--allow-origin", origin)) as welcome,
        OutliveServer(folder / "closed") as closed,
    ):
        for name, server in (("welcome", welcome), ("closed", closed)):
            there = f"ws://127.0.0.1:{server.port}/ws/terminal/"
            for kind, text in (("smallest", smallest), ("whole", whole)):
                assert _ADDRESS in text
                (folder / f"pages/{name}-{kind}.html").write_text(text.replace(_ADDRESS, there))
        (folder / "pages/attach.js").write_text(attach)
        yield origin, welcome, closed


def _end(server: OutliveServer, process_id: str) -> None:
    Requests(server)("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})


def _shell(server: OutliveServer) -> str:
    """Start a shell as the page says and return its id."""
    line = "PS1='here> ' exec bash --norc --noprofile"
    started = run_outlive("run", "-d", "--pty", "-c", line, state_dir=server.state_dir)
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


@pytest.mark.promise("T.browser")
def test_the_smallest_page_is_a_terminal(shown: Browser, tmp_path: Path) -> None:
    with _served(tmp_path) as (origin, welcome, closed):
        process_id = _shell(welcome)
        shown.open(f"{origin}/welcome-smallest.html?id={process_id}")
        shown.until_shown("here>")
        shown.type("echo $((6 * 7))-seen\r")
        shown.until_shown("\n42-seen")
        shown.reload()
        shown.until_shown("\n42-seen")
        shown.type("echo $((7 * 7))-again\r")
        shown.until_shown("\n49-again")
        shown.type("exit 3\r")
        shown.until(lambda: shown.value("ends.at(-1)") == 1000)

        refused = _shell(closed)
        shown.open(f"{origin}/closed-smallest.html?id={refused}")
        shown.until(lambda: shown.value("ends.at(-1)") == 1006)
        shown.until(lambda: any("HTTP Authentication failed" in line for line in shown.console))
        assert shown.shown == ""
        _end(closed, refused)


@pytest.mark.promise("T.browser", "T.resume")
def test_a_page_that_is_loaded_anew_fetches_only_what_is_new(shown: Browser, tmp_path: Path) -> None:
    with _served(tmp_path) as (origin, welcome, _):
        process_id = _shell(welcome)
        shown.open(f"{origin}/welcome-whole.html?id={process_id}")
        shown.until_shown("here>")
        shown.type("echo $((6 * 7))-seen\r")
        shown.until_shown("\n42-seen\nhere>")
        before = len(written(welcome, process_id))
        assert shown.value("fetched") == before
        shown.reload()
        shown.until_shown("\n42-seen\nhere>")
        shown.until(lambda: shown.value("chosen.length"))
        assert re.search(r"cursor=(\d+)", shown.value("dialled[0]"))[1] == str(before)  # type: ignore[index]
        shown.type("echo $((7 * 7))-again\r")
        whole = shown.until_shown("\n49-again\nhere>")
        assert whole.count("42-seen") == whole.count("49-again") == 1
        after = len(written(welcome, process_id))
        shown.until(lambda: before + shown.value("fetched") == after)
        _end(welcome, process_id)


@pytest.mark.promise("T.browser", "T.token")
def test_a_page_that_shows_a_token_needs_no_allowed_origin(shown: Browser, tmp_path: Path) -> None:
    with _served(tmp_path) as (origin, _, closed):
        made = run_outlive("token", "create", "--name", "page", "--as-user", state_dir=closed.state_dir)
        assert made.returncode == 0, made.stderr
        process_id = _shell(closed)
        shown.open(f"{origin}/closed-whole.html?id={process_id}")
        shown.until(lambda: shown.value("ends.at(-1)") == 1006)
        shown.value(f"sessionStorage.setItem('token', '{made.stdout.strip()}')")
        shown.reload()
        shown.until_shown("here>")
        shown.type("echo $((6 * 7))-seen\r")
        shown.until_shown("\n42-seen")
        assert shown.value("chosen.at(-1)") == "outlive.terminal.v1"
        _end(closed, process_id)
