"""What the audit log says of a process, beside its output in a real Chromium, for admins alone."""

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough

_ROWS = "[...document.querySelectorAll('.audit tbody tr')].map((row) => row.innerText)"


@pytest.mark.promise("U.audit")
def test_who_started_and_stopped_a_process_is_seen_beside_its_output(
    window: Browser, own_server: OutliveServer
) -> None:
    process_id = Requests(own_server).start("sleep 60", name="watched")["process_id"]
    open_page(window, own_server)
    window.until_text("watched")
    window.value(f"location.hash = '#/log/{process_id}'")
    window.click(".audit summary")
    window.until(lambda: len(window.value(_ROWS)) == 1, lambda: window.text)
    assert "audit=1" in window.value("location.hash"), "the address shows it, too"
    window.click("[aria-label='Stop watched']")
    window.click("[aria-label='Really Stop watched']")
    window.until(lambda: len(window.value(_ROWS)) == 3, lambda: window.text)
    start, *others = window.value(_ROWS)
    assert ("start" in start, "rest" in start, "uid:" in start) == (True, True, True)
    cancel, end = sorted(
        others, key=lambda row: "exit" in row
    )  # a process may end before its cancel is answered
    assert ("cancel" in cancel, "jsonrpc" in cancel) == (True, True), others
    assert ("exit" in end, "cause cancel" in end) == (True, True), others
    window.reload()
    window.until(lambda: len(window.value(_ROWS)) == 3)


@pytest.mark.promise("U.audit")
@pytest.mark.parametrize("scope", ["read", "run"])
def test_a_page_with_less_than_admin_sees_no_audit_log(
    window: Browser, own_server: OutliveServer, scope: str
) -> None:
    process_id = Requests(own_server).start("sleep 60", name="watched")["process_id"]
    open_page(window, own_server, "--scope", scope)
    window.until_text("watched")
    window.value(f"location.hash = '#/log/{process_id}?audit=1'")
    window.until_text("Beginning")
    assert window.value("document.querySelector('.audit')") is None
    token = window.value("sessionStorage.getItem('outlive.token')")
    answer = Requests(own_server, token)("GET", f"/v1/audit?process_id={process_id}")
    assert (answer.status, answer.slug) == (403, "scope_missing"), "the server refuses anyway"
