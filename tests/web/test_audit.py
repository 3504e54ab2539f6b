"""What the audit log says of a process, beside its output in a real Chromium, for admins alone."""

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough


@pytest.mark.promise("U.audit")
def test_who_started_and_stopped_a_process_is_seen_beside_its_output(
    window: Browser, own_server: OutliveServer
) -> None:
    process_id = Requests(own_server).start("sleep 60", name="watched")["process_id"]
    open_page(window, own_server)
    window.until_text("watched")
    window.go(f"#/log/{process_id}")
    window.page.get_by_text("Who did what").click()
    # The first row is the table's head; what the output is drawn in is a table, too, by its role.
    rows = window.page.locator("details").get_by_role("row")
    expect(rows).to_have_count(2)
    assert "audit=1" in window.place, "the address shows it, too"
    window.page.get_by_role("button", name="Stop watched").click()
    window.page.get_by_role("button", name="Really Stop watched").click()
    expect(rows).to_have_count(4)
    _, start, *others = rows.all_inner_texts()
    assert ("start" in start, "rest" in start, "uid:" in start) == (True, True, True)
    cancel, end = sorted(
        others, key=lambda row: "exit" in row
    )  # a process may end before its cancel is answered
    assert ("cancel" in cancel, "jsonrpc" in cancel) == (True, True), others
    assert ("exit" in end, "cause cancel" in end) == (True, True), others
    window.reload()
    expect(rows).to_have_count(4)


@pytest.mark.promise("U.audit")
@pytest.mark.parametrize("scope", ["read", "run"])
def test_a_page_with_less_than_admin_sees_no_audit_log(
    window: Browser, own_server: OutliveServer, scope: str
) -> None:
    process_id = Requests(own_server).start("sleep 60", name="watched")["process_id"]
    open_page(window, own_server, "--scope", scope)
    window.until_text("watched")
    window.go(f"#/log/{process_id}?audit=1")
    window.until_text("Beginning")
    expect(window.page.get_by_text("Who did what")).to_have_count(0)
    token = window.value("sessionStorage.getItem('outlive.token')")
    answer = Requests(own_server, token)("GET", f"/v1/audit?process_id={process_id}")
    assert (answer.status, answer.slug) == (403, "scope_missing"), "the server refuses anyway"
