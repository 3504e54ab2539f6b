"""The search in a real Chromium: typed, found as it is written on screen, stopped, in the address, and one click from the log."""

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough


def _run(asking: Requests, command: str, name: str) -> str:
    process_id = str(asking.start(command, name=name)["process_id"])
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=30")
    return process_id


def _submit(window: Browser) -> None:
    window.value("document.querySelector('.search form').requestSubmit()")


@pytest.mark.promise("U.search")
def test_what_is_typed_is_found_in_all_output_and_a_click_leads_to_the_line(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    _run(asking, "echo 'first: Connection refused'; echo '<b>no tag</b> refused'", "older")
    newer = _run(asking, "seq 1 50000; echo 'connection REFUSED by 50001'; seq 50002 90000", "newer")
    address = open_page(window, own_server)
    window.until_text("2 shown")
    window.value("document.querySelector('a[href=\"#/search\"]').click()")
    window.until(lambda: window.value("document.querySelector('.search form') !== null"))
    window.type("connection refused", into="#filter")
    _submit(window)
    shown = window.until_text("2 found")
    assert "everything was searched" in shown
    assert shown.index("by 50001") < shown.index("first: Connection refused"), "the newest process first"
    assert "50000\n" in shown, "with the lines around it"
    assert window.value("location.hash") == "#/search?q=connection+refused"
    assert window.value("document.querySelector('mark').textContent") == "connection REFUSED"
    # A text of a process is a text.
    window.value("location.hash = '#/search?q=no+tag'")
    window.until_text("1 found")
    assert window.value("document.querySelector('.hit b b')") is None
    # The whole view is in the address, also opened anew.
    window.open(f"{address}#/search?q=%5Econnection.*%5Cd&regex=1&case=1")
    window.until_text("1 found")
    window.value("document.querySelector('.hit .lines').click()")
    first = "(document.querySelector('.line [role=cell]') || {}).innerText || ''"
    window.until(lambda: window.value(first).startswith("connection REFUSED"), lambda: window.text[:500])
    assert window.value("location.hash").startswith(f"#/log/{newer}?at=")
    window.value("history.back()")
    window.until_text("1 found")


@pytest.mark.promise("U.search")
def test_a_search_stops_goes_on_over_a_kill_of_the_server_and_says_what_is_no_pattern(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    # 550 matches, of which 500 are shown at once.
    _run(asking, "for n in $(seq 550); do echo pebble $n; done", "stones")
    open_page(window, own_server, "--scope", "read")
    window.until_text("1 shown")
    window.value("location.hash = '#/search?q=pebble'")
    assert "there may be more" in window.until_text("500 found")
    own_server.kill()
    window.until_text("The server is away")
    window.value("document.querySelector('.hits button').click()")
    own_server.start()
    window.until_text("550 found")
    window.value("location.hash = '#/search?q=%28&regex=1'")
    window.until_text("no regular expression")
