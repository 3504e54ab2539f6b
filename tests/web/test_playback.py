"""A terminal played back in a real Chromium: at its own speed and faster, from any time, in the size that it
had.
"""

from collections.abc import Iterator

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium, expect
from tests.support.server import OutliveServer
from tests.web.opened import WITHOUT_WEBGL, open_page

pytestmark = pytest.mark.thorough


@pytest.fixture
def viewer(running_chromium: Chromium) -> Iterator[Browser]:
    """A window whose pages draw terminals by elements."""
    with running_chromium.window(script=WITHOUT_WEBGL) as opened:
        yield opened


def _press(window: Browser, text: str) -> None:
    window.page.get_by_role("button", name=text, exact=True).click()


def _go(window: Browser, milliseconds: int) -> None:
    """Move the slider."""
    window.page.get_by_role("slider", name="Time").fill(str(milliseconds))


@pytest.mark.promise("U.playback")
def test_a_terminal_is_played_back_as_it_looked(viewer: Browser, own_server: OutliveServer) -> None:
    asking = Requests(own_server)
    command = (
        r"printf 'one\r\n'; sleep 1.5; printf '\033[2Jtwo\r\n'; while [ $(stty size | cut -d' ' -f1) "
        r"!= 7 ]; do sleep 0.05; done; sleep 0.3; printf 'three\r\n'"
    )
    process_id = asking.start(command, pty=True, stdin="pipe")["process_id"]
    path = f"/v1/processes/{process_id}"
    viewer.until(lambda: "two" in str(asking("GET", f"{path}/output").body))
    asking("POST", f"{path}/resize", body={"rows": 7, "cols": 50})
    asking("GET", f"{path}/wait?timeout=20")
    open_page(viewer, own_server)
    viewer.until_text("shown")
    viewer.go(f"#/playback/{process_id}")
    viewer.until_shown("one")
    assert "two" not in viewer.shown
    _press(viewer, "4x")
    _press(viewer, "Play")
    shown = viewer.until_shown("three")
    assert "two" in shown
    assert "one" not in shown, "the screen was cleared"
    expect(viewer.page.locator(".xterm-rows > div")).to_have_count(7)
    expect(viewer.page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    # Back to a time, and there it stands.
    _go(viewer, 700)
    viewer.until(lambda: viewer.shown.strip() == "one", lambda: viewer.shown)
    assert "t=700" in viewer.place
    assert "two" not in viewer.shown
    viewer.reload()
    viewer.until(lambda: viewer.shown.strip() == "one", lambda: viewer.shown)
    _press(viewer, "16x")
    _press(viewer, "Play")
    viewer.until_shown("three")


@pytest.mark.promise("U.playback")
def test_pauses_are_skipped_and_a_long_recording_begins_at_any_time(
    viewer: Browser, own_server: OutliveServer
) -> None:
    """Of what lies before a time, only what a screen needs is fetched."""
    asking = Requests(own_server)
    command = "for n in $(seq 8); do seq 40000; echo mark-$n; sleep 0.25; done; sleep 4; echo late"
    process_id = asking.start(command, pty=True, stdin="pipe")["process_id"]
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=30")
    total = asking("GET", f"/v1/processes/{process_id}").body["stdout_bytes"]
    open_page(viewer, own_server)
    viewer.until_text("shown")
    slider = viewer.page.get_by_role("slider", name="Time")

    def length_ms() -> int:
        return int(slider.get_attribute("max") or 0)

    viewer.go(f"#/playback/{process_id}")
    viewer.until(lambda: length_ms() > 4000, lambda: viewer.text)
    _go(viewer, length_ms() - 3500)
    viewer.until_shown("mark-8")
    fetched = (
        "performance.getEntriesByType('resource').filter((one) => "
        "one.name.includes('/output')).reduce((sum, one) => sum + one.transferSize, 0)"
    )
    assert viewer.page.evaluate(fetched) < total / 2
    _press(viewer, "Skip pauses")
    _press(viewer, "Play")
    viewer.until_shown("late")
