"""Terminals in a real Chromium: opened, typed into, and gone on with at the exact byte when the server was
killed.
"""

from collections.abc import Iterator

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium, expect
from tests.support.server import OutliveServer
from tests.web.opened import WITHOUT_WEBGL, open_page, start_shell

pytestmark = pytest.mark.thorough


@pytest.fixture
def viewer(running_chromium: Chromium) -> Iterator[Browser]:
    """A window whose pages draw terminals by elements."""
    with running_chromium.window(script=WITHOUT_WEBGL) as opened:
        yield opened


@pytest.mark.promise("U.terminal")
def test_a_terminal_is_opened_and_typed_into(viewer: Browser, own_server: OutliveServer) -> None:
    open_page(viewer, own_server)
    viewer.until_text("shown")
    viewer.page.get_by_role("button", name="New terminal").click()
    viewer.page.wait_for_url("**/#/terminal/*")
    viewer.until(lambda: "$" in viewer.shown or "#" in viewer.shown, lambda: viewer.shown)
    viewer.type("echo $((6 * 7))-seen\r")
    viewer.until_shown("\n42-seen")
    assert not [line for line in viewer.console if "Content Security Policy" in line]


@pytest.mark.promise("U.terminal")
def test_a_terminal_goes_on_at_the_exact_byte_when_the_server_is_killed(
    viewer: Browser, own_server: OutliveServer
) -> None:
    start_shell(own_server)
    open_page(viewer, own_server)
    viewer.page.get_by_role("link", name="Terminal of shell").click()
    viewer.until_shown("here>")
    viewer.type("echo $((6 * 7))-before; sleep 2; echo $((7 * 7))-meanwhile\r")
    viewer.until_shown("\n42-before")
    own_server.kill()
    viewer.until_text("connection was lost")
    own_server.start()
    viewer.until_shown("\n49-meanwhile\nhere>")
    expect(viewer.page.get_by_text("connection was lost")).to_have_count(0)
    viewer.type("echo $((8 * 8))-after\r")
    shown = viewer.until_shown("\n64-after\nhere>")
    assert [shown.count(f"\n{one}") for one in ("42-before", "49-meanwhile", "64-after")] == [1, 1, 1]
    asking = Requests(own_server)
    # One for the page, one for the terminal.
    viewer.until(lambda: asking("GET", "/health").body["connections"] == 2)
    viewer.page.get_by_role("button", name="Ctrl-D").click()
    viewer.until_text("exited with 0")


@pytest.mark.promise("U.terminal")
def test_who_only_looks_sees_the_terminal_and_types_nothing(
    viewer: Browser, own_server: OutliveServer
) -> None:
    process_id = start_shell(own_server)
    before = Requests(own_server)("GET", f"/v1/processes/{process_id}").body
    open_page(viewer, own_server, "--scope", "read")
    viewer.page.get_by_role("link", name="Terminal of shell").click()
    viewer.until_shown("here>")
    assert "only looks" in viewer.text
    viewer.type("echo typed-by-a-looker\r")
    asking = Requests(own_server)
    asking("POST", f"/v1/processes/{process_id}/stdin", body="echo by-another\n")
    viewer.until_shown("by-another")
    assert "typed-by-a-looker" not in viewer.shown
    after = asking("GET", f"/v1/processes/{process_id}").body
    assert before["pid"] == after["pid"]
