"""The search in a real Chromium: typed, found as it is written on screen, stopped, in the address, and one
click from the log.
"""

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough


def _run(asking: Requests, command: str, name: str) -> str:
    process_id = str(asking.start(command, name=name)["process_id"])
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=30")
    return process_id


@pytest.mark.promise("U.search")
def test_what_is_typed_is_found_in_all_output_and_a_click_leads_to_the_line(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    _run(asking, "echo 'first: Connection refused'; echo '<b>no tag</b> refused'", "older")
    newer = _run(asking, "seq 1 50000; echo 'connection REFUSED by 50001'; seq 50002 90000", "newer")
    address = open_page(window, own_server)
    window.until_text("2 shown")
    page = window.page
    page.get_by_role("link", name="Search").click()
    page.get_by_role("searchbox", name="Search in all output").fill("connection refused")
    page.get_by_role("button", name="Search", exact=True).click()
    shown = window.until_text("2 found")
    assert "everything was searched" in shown
    assert shown.index("by 50001") < shown.index("first: Connection refused"), "the newest process first"
    assert "50000\n" in shown, "with the lines around it"
    assert window.place == "#/search?q=connection+refused"
    expect(page.locator("mark").first).to_have_text("connection REFUSED")
    # A text of a process is a text.
    window.go("#/search?q=no+tag")
    window.until_text("1 found")
    expect(page.get_by_role("listitem").locator("b")).to_have_text(["older"])
    # The whole view is in the address, also opened anew.
    window.open(f"{address}#/search?q=%5Econnection.*%5Cd&regex=1&case=1")
    window.until_text("1 found")
    page.get_by_role("listitem").get_by_role("link", name="connection REFUSED").click()
    lines = page.get_by_role("table", name="Lines of output")
    expect(lines.get_by_role("cell").first).to_contain_text("connection REFUSED")
    assert window.place.startswith(f"#/log/{newer}?at=")
    page.go_back()
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
    window.go("#/search?q=pebble")
    assert "there may be more" in window.until_text("500 found")
    own_server.kill()
    window.until_text("The server is away")
    window.page.get_by_role("button", name="Go on").click()
    own_server.start()
    window.until_text("550 found")
    window.go("#/search?q=%28&regex=1")
    window.until_text("no regular expression")
