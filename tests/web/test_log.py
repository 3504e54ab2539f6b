"""A process's output in a real Chromium: its beginning, its end, what lies between, and what is written while
it is looked at.
"""

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page, output_lines

pytestmark = pytest.mark.thorough

_FETCHED = (
    "performance.getEntriesByType('resource').filter((one) => "
    "one.name.includes('/output')).reduce((sum, one) => sum + one.transferSize, 0)"
)


def _shown(window: Browser) -> str:
    """The lines that are drawn."""
    return "\n".join(output_lines(window).all_inner_texts())


def _until_shown(window: Browser, text: str) -> None:
    window.until(lambda: text in _shown(window), lambda: f"{text!r}: {window.text[:2000]}")


def _look(window: Browser, server: OutliveServer, process_id: str, query: str = "") -> None:
    open_page(window, server)
    window.until_text("shown")
    window.go(f"#/log/{process_id}{query}")


@pytest.mark.promise("U.log")
def test_a_large_log_opens_at_its_end_and_is_had_whole_from_anywhere(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    process_id = asking.start("seq 1 3000000")["process_id"]
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=30")
    _look(window, own_server, process_id)
    _until_shown(window, "\n3000000")
    assert window.page.evaluate(_FETCHED) < 1_000_000, "of 23 MB only what is in sight is fetched"
    window.page.get_by_role("button", name="Beginning").click()
    _until_shown(window, "1\n2\n3\n")
    assert "3000000" not in _shown(window)
    assert window.place.endswith("?at=0")
    # Scrolling goes on without a hole: lines follow each other, and what has gone out of the window comes
    # back.
    window.page.get_by_role("table", name="Lines of output").hover()
    for _ in range(6):
        window.page.mouse.wheel(0, 100_000)
        window.page.wait_for_timeout(100)
    shown = [int(line) for line in _shown(window).split()]
    assert len(shown) > 20
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    _look(window, own_server, process_id, "?at=9000000")
    _until_shown(window, "\n1263890")


@pytest.mark.promise("U.log")
def test_what_is_written_is_seen_and_stderr_and_colours_are_marked(
    window: Browser, own_server: OutliveServer
) -> None:
    line = r"printf '\033[31mred\033[0m plain\n'; echo wrong >&2; printf 'bar 1\rbar 2\n'; cat"
    asking = Requests(own_server)
    process_id = asking.start(line, stdin="pipe")["process_id"]
    _look(window, own_server, process_id)
    _until_shown(window, "red plain")
    expect(window.page.locator(".fg-red")).to_have_text("red")
    _until_shown(window, "bar 2")
    expect(window.page.locator(".line.stderr").get_by_role("cell")).to_have_text("wrong")
    assert "bar 1" not in _shown(window)
    asking("POST", f"/v1/processes/{process_id}/stdin?eof=true", body="typed <b>later</b>")
    _until_shown(window, "typed <b>later</b>")
    window.until_text("finished")


@pytest.mark.promise("U.log")
def test_the_log_goes_on_when_the_server_is_killed(window: Browser, own_server: OutliveServer) -> None:
    counting = "for n in $(seq 200); do echo number $n; sleep 0.05; done"
    process_id = Requests(own_server).start(counting)["process_id"]
    _look(window, own_server, process_id)
    _until_shown(window, "number ")
    own_server.kill()
    own_server.start()
    _until_shown(window, "number 200")
    lines = _shown(window).split("\n")
    seen = [int(line.split()[1]) for line in lines if line.startswith("number ")]
    assert seen == list(range(seen[0], 201)), "nothing is missing, and nothing twice"


@pytest.mark.promise("U.log")
def test_what_went_wrong_for_a_person_stays_while_the_page_follows_the_output(
    window: Browser, own_server: OutliveServer
) -> None:
    process_id = Requests(own_server).start("while sleep 0.2; do date +%N; done", name="ticks")["process_id"]
    _look(window, own_server, process_id)
    expect(output_lines(window).first).to_be_visible()
    window.value("""window.looks = 0;
        const had = WebSocket.prototype.send;
        WebSocket.prototype.send = function (text) {
            window.looks += text.includes('"method":"get"');
            return had.call(this, text.replace('"method":"control"', '"method":"cannot-be"'));
        }; true""")
    window.page.get_by_role("button", name="Pause ticks").click()
    alert = window.page.get_by_role("alert")
    expect(alert).to_be_visible()
    window.value("looks = 0")
    window.until(lambda: window.value("looks") >= 4)
    expect(alert).to_be_visible(timeout=100)
    alert.get_by_role("button", name="Close").click()
    expect(alert).to_have_count(0)
