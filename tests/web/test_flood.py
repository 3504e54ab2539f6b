"""A flood in the page's terminal, in a real Chromium: Ctrl-C is seen at once, and what was not drawn is named
and linked to.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium
from tests.support.server import OutliveServer
from tests.web.opened import WITHOUT_WEBGL, open_page, start_shell

pytestmark = pytest.mark.thorough

_LINE = "0123456789" * 6
# Counts the output that comes over WebSocket.
_COUNTED = """
window.came = 0;
const listener = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
Object.defineProperty(WebSocket.prototype, "onmessage", { set(heard) {
    listener.set.call(this, (event) => { window.came += event.data.byteLength ?? 0; return heard(event); });
} });
"""


@pytest.fixture
def viewer(running_chromium: Chromium) -> Iterator[Browser]:
    """A window whose pages draw terminals by elements, and count what comes."""
    with running_chromium.window(script=WITHOUT_WEBGL + _COUNTED) as opened:
        yield opened


def _open(viewer: Browser, server: OutliveServer) -> str:
    process_id = start_shell(server)
    open_page(viewer, server)
    viewer.until_text("shown")
    viewer.value(f"location.hash = '#/terminal/{process_id}'")
    viewer.until_shown("here>")
    return process_id


def _written(server: OutliveServer, process_id: str) -> int:
    return (server.state_dir / "processes" / process_id / "out").stat().st_size


@pytest.mark.promise("U.terminal.flood", "T.ahead", "T.lag")
def test_ctrl_c_in_a_flood_is_seen_behind_little_output(viewer: Browser, own_server: OutliveServer) -> None:
    process_id = _open(viewer, own_server)
    # So slow that what is drawn falls behind what is written, however slow this machine writes.
    viewer.do("Emulation.setCPUThrottlingRate", rate=4)
    viewer.type(f"yes {_LINE}\r")
    viewer.until(lambda: _written(own_server, process_id) - viewer.value("came") > 2_500_000)
    # Counted from the press on, by the page itself: until the mouse is there, much is drawn.
    viewer.value("addEventListener('mousedown', () => (window.came = 0), true)")
    viewer.click(".keys button:nth-child(3)")  # Ctrl-C
    viewer.until(lambda: viewer.shown.strip().endswith("here>"), lambda: viewer.shown)
    assert viewer.value("came") < 1_000_000, "the 2.5 MB before the prompt were not drawn"
    viewer.until_text("skipped, Output has all")
    viewer.do("Emulation.setCPUThrottlingRate", rate=1)
    # Nothing of this is in the way of a reconnect: it is at the exact byte.
    own_server.kill()
    viewer.until_text("connection was lost")
    own_server.start()
    viewer.until(lambda: "connection was lost" not in viewer.text, lambda: viewer.text)
    viewer.type("echo $((6 * 7))-after\r")
    shown = viewer.until_shown("\n42-after\nhere>")
    assert shown.count("42-after") == 1


_NUMBERS = (
    "seq -f %060.0f 300000"  # 18.6 MB: more than the page's lag; long lines go faster through a terminal
)


def _number(count: int) -> str:
    return f"{count:060}"


def _flood_while_away(viewer: Browser, server: OutliveServer, process_id: str, line: str, gate: Path) -> None:
    """Type a line, hide the page, let the line run once the page has hung up, and look again when the flood
    is written.
    """
    asking = Requests(server)
    os.mkfifo(gate)
    viewer.type(f"read < {gate}; {line}\r")
    viewer.value("""Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});
        window.isHidden = true; document.dispatchEvent(new Event('visibilitychange'))""")  # noqa: E501 -- lines of a table, or of another language
    viewer.until(lambda: asking("GET", "/health").body["connections"] == 1)
    gate.write_text("\n")
    viewer.until(lambda: _written(server, process_id) > 18_500_000)
    viewer.value("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")


@pytest.mark.promise("U.terminal.flood", "T.lag")
def test_a_page_that_was_away_goes_on_near_the_end_and_says_what_is_missing(
    viewer: Browser, own_server: OutliveServer, tmp_path: Path
) -> None:
    process_id = _open(viewer, own_server)
    _flood_while_away(viewer, own_server, process_id, f"{_NUMBERS}; echo the''-end", tmp_path / "gate")
    viewer.until_shown(f"\n{_number(300_000)}\nthe-end\nhere>")
    viewer.until_text("MiB skipped, Output has all")
    assert viewer.value("came") < 10_000_000
    href = viewer.value("document.querySelector('.skipped a').hash")
    assert href.startswith(f"#/log/{process_id}?at=")
    # The link leads to what was not drawn: the first line of the flood.
    viewer.click(".skipped a")
    viewer.until(lambda: _number(1) in viewer.text and _number(2) in viewer.text, lambda: viewer.text[:1000])


@pytest.mark.promise("U.terminal.flood", "T.lag")
def test_behind_a_skip_the_screens_are_those_that_the_skipped_output_has_left(
    viewer: Browser, own_server: OutliveServer, tmp_path: Path
) -> None:
    process_id = _open(viewer, own_server)
    line = f"printf '\\033[?1049h'; {_NUMBERS}; read; printf '\\033[?1049l'; echo the''-end"
    _flood_while_away(viewer, own_server, process_id, line, tmp_path / "gate")
    shown = viewer.until_shown(f"\n{_number(300_000)}")
    assert "skipped" not in shown, "a full-screen program's picture has no place for a line of ours"
    viewer.until_text("MiB skipped, Output has all")
    viewer.type("\r")
    shown = viewer.until_shown("the-end\nhere>")
    assert "here> read" in shown, "the first screen is there again"
    assert _number(299_999) not in shown
