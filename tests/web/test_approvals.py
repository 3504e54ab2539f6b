"""What waits for a person is seen, approved and denied in a real Chromium, on a phone's width, too."""

from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.fixtures import ServerFactory
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough


@pytest.mark.promise("U.approvals", "P.exactly")
def test_a_start_is_seen_whole_and_approved_by_a_click(
    window: Browser, serve: ServerFactory, tmp_path: Path
) -> None:
    server = serve("--ask", "touch *")
    open_page(window, server)
    window.page.get_by_role("link", name="Approvals").click()
    window.until_text("Nothing waits")
    target = tmp_path / "a b"
    asking = Requests(server)
    body = {
        "argv": ["touch", str(target), "--", "x\u202eevil\x1b[2J\u00a0y"],
        "cwd": str(tmp_path),
        "env": {"PLACE": "here"},
        "env_secrets": {"KEY": "hunter2-hunter2"},
        "name": "asked-for",
    }
    process_id = asking("POST", "/v1/processes", body=body).body["process_id"]
    shown = window.until_text("1 waiting")
    assert f"'touch' '{target}' '--' 'x\\u{{202e}}evil\\u{{1b}}[2J\\u{{a0}}y'" in shown, (
        "nothing is drawn over"
    )
    for fact in (str(tmp_path), "uid:", "PLACE=", "KEY="):
        assert fact in shown
    assert "hunter2" not in shown
    assert window.page.title() == "(1) outlive"
    window.page.get_by_role("button", name="Show them").click()
    window.until_text("hunter2-hunter2")
    window.page.get_by_role("button", name="Approve", exact=True).click()
    window.until_text("Nothing waits")
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=20")
    assert target.exists()
    assert window.page.title() == "outlive"


@pytest.mark.promise("U.approvals")
def test_a_start_is_denied_with_a_sentence_on_a_phone(
    phone: Browser, serve: ServerFactory, tmp_path: Path
) -> None:
    server = serve("--ask", "touch *")
    open_page(phone, server)
    phone.go("#/approvals")
    asking = Requests(server)
    target = tmp_path / ("long-" * 40)
    process_id = asking("POST", "/v1/processes", body={"argv": ["touch", str(target)]}).body["process_id"]
    phone.until_text("1 waiting")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 375
    box = phone.page.get_by_role("button", name="Approve", exact=True).bounding_box()
    assert box is not None
    assert (box["width"] > 40, box["height"] >= 40, box["x"] + box["width"] <= 375) == (True, True, True)
    phone.page.get_by_label("Why not").fill("not on a Friday")
    phone.page.get_by_role("button", name="Deny").click()
    phone.until_text("Nothing waits")
    ended = asking("GET", f"/v1/processes/{process_id}").body
    assert ended["cause"] == "approval_denied"
    assert "not on a Friday" in ended["error"]
    assert not target.exists()


@pytest.mark.promise("U.approvals")
@pytest.mark.parametrize("scope", ["read", "run"])
def test_a_page_with_less_than_admin_sees_no_approvals(
    window: Browser, serve: ServerFactory, scope: str
) -> None:
    server = serve("--ask", "touch *")
    Requests(server)("POST", "/v1/processes", body={"argv": ["touch", "/nowhere/at-all"]})
    open_page(window, server, "--scope", scope)
    window.until_text("needs approval")
    expect(window.page.get_by_role("link", name="Approvals")).to_have_count(0)
    window.go("#/approvals")
    window.until_text("with the scope admin")
    expect(window.page.get_by_role("article")).to_have_count(0)


@pytest.mark.promise("U.approvals")
def test_a_start_is_approved_for_always_once_everything_that_this_approves_was_shown(
    window: Browser, serve: ServerFactory, tmp_path: Path
) -> None:
    (tmp_path / "settings").mkdir()
    config = tmp_path / "settings/config.toml"
    config.write_text('ask = ["touch *", "nice *"]\n')
    server = serve(OUTLIVE_CONFIG=str(config))
    open_page(window, server)
    window.go("#/approvals")
    asking = Requests(server)
    body = {"command": "touch one && touch two", "cwd": str(tmp_path)}
    first = asking("POST", "/v1/processes", body=body).body["process_id"]
    window.until_text("1 waiting")
    window.page.get_by_text("Always in this project").click()
    shown = window.until_text("From now on")
    for fact in (str(tmp_path), "'touch' 'one'", "'touch' 'two'"):
        assert fact in shown
    window.page.get_by_role("button", name="Approve, now and always").click()
    window.until_text("Nothing waits")
    asking("GET", f"/v1/processes/{first}/wait?timeout=20")
    again = asking("POST", "/v1/processes", body=body).body
    assert again["waits_for"] is None
    # What starts others is approved once only: there is a warning, and no such button.
    asking("POST", "/v1/processes", body={**body, "command": "nice touch three"})
    window.until_text("1 waiting")
    assert "starts other programs" in window.until_text("Approved once only")
    expect(window.page.get_by_role("button", name="always")).to_have_count(0)
