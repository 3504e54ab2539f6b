"""The list of processes, in a real Chromium: live, filtered by the address, and controlled by clicks."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough

_DRAWN = "document.querySelectorAll('.row').length"


def _state(server: OutliveServer, name: str) -> str:
    return str(Requests(server)("GET", f"/v1/processes/{name}").body["state"])


@pytest.mark.promise("U.list")
def test_what_starts_and_ends_elsewhere_is_seen_at_once(window: Browser, own_server: OutliveServer) -> None:
    open_page(window, own_server)
    window.until_text("Nothing here.")
    asking = Requests(own_server)
    asking.start("sleep 60", name="begun-elsewhere")
    assert "running" in window.until_text("begun-elsewhere")
    asking("POST", "/v1/processes/begun-elsewhere/control", body={"action": "cancel"})
    window.until_text("stopped")
    own_server.kill()
    window.until_text("The server is away")
    own_server.start()
    expect(window.page.get_by_text("The server is away")).to_have_count(0)
    asking = Requests(own_server)
    asking.start("exit 7", name="after-the-kill")
    window.until_text("failed (exit 7)")


@pytest.mark.promise("U.list")
def test_a_filter_is_in_the_address_and_few_rows_are_drawn_of_many(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    for number in range(80):
        asking.start("true", name=f"many-{number}", tags={"kind": "odd" if number % 2 else "even"})
    address = open_page(window, own_server)
    window.until_text("80 shown")
    assert 0 < window.value(_DRAWN) < 60
    window.page.get_by_role("searchbox", name="Filter").fill("kind=odd many-1")
    window.until_text("6 shown")
    assert window.place == "#/list?q=kind%3Dodd+many-1"
    window.open(f"{address}#/list?q=many-79&state=finished")
    window.until_text("1 shown")
    expect(window.page.get_by_role("searchbox", name="Filter")).to_have_value("many-79")
    window.go("#/list?state=live")
    window.until_text("0 shown")
    # By keys alone: "/" leads to the filter from wherever the focus is.
    window.value("document.activeElement.blur()")
    window.page.keyboard.press("/")
    expect(window.page.get_by_role("searchbox", name="Filter")).to_be_focused()


@pytest.mark.promise("U.list")
def test_a_process_is_paused_resumed_and_stopped_by_clicks(
    window: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("sleep 60", name="clicked")
    open_page(window, own_server)
    window.page.get_by_role("button", name="Pause clicked", exact=True).click()
    window.until(lambda: _state(own_server, "clicked") == "paused")
    window.page.get_by_role("button", name="Resume clicked", exact=True).click()
    window.until(lambda: _state(own_server, "clicked") == "running")
    window.page.get_by_role("button", name="Stop clicked", exact=True).click()
    assert _state(own_server, "clicked") == "running", "once is a slip of the hand"
    window.page.get_by_role("button", name="Really Stop clicked", exact=True).click()
    window.until_text("stopped")
    expect(window.page.get_by_role("button", name="clicked")).to_have_count(0)


@pytest.mark.promise("U.list", "U.deeds")
def test_a_process_is_signalled_named_tagged_and_run_again(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    asking.start("trap 'echo heard' USR1; while :; do sleep 0.05; done", name="first")
    address = open_page(window, own_server)
    window.page.get_by_role("link", name="Details of first").click()
    window.until_text("Send signal")
    page = window.page
    page.get_by_label("Signal").select_option("USR1")
    page.get_by_role("button", name="Send signal").click()
    window.until(lambda: "heard" in str(asking("GET", "/v1/processes/first/output").body))
    page.get_by_label("Name").fill("second")
    page.get_by_role("button", name="Save").click()
    window.until_text("second")
    window.until(lambda: "name" in asking("GET", "/v1/processes/second").body)
    page.get_by_label("Tags").fill("job=x, mine")
    page.get_by_label("Tags").press("Enter")
    window.until(lambda: asking("GET", "/v1/processes/second").body["tags"] == {"job": "x", "mine": ""})
    window.open(f"{address}#/list?tag=job%3Dx&sort=name")
    window.until_text("1 shown")
    # Its name is taken while it lives: the refusal is shown, and the same runs again once it has ended.
    window.page.get_by_role("link", name="Details of second").click()
    page.get_by_role("button", name="Run again").click()
    window.until_text("is the name of")
    window.page.get_by_role("button", name="Kill second", exact=True).click()
    window.page.get_by_role("button", name="Really Kill second", exact=True).click()
    window.until_text("Cancelled by")
    page.get_by_role("button", name="Run again").click()
    window.until_text("2 shown")
    assert _state(own_server, "second") == "running"
    window.go("#/list?exit=failed")
    window.until_text("1 shown")


@pytest.mark.promise("U.list", "S0.19.events")
def test_what_one_page_renames_every_page_shows(
    window: Browser, running_chromium: Chromium, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    asking.start("true", name="ended")
    asking.start("sleep 60", name="lives")
    with running_chromium.window() as other:
        for each in (window, other):
            open_page(each, own_server)
            each.until_text("2 shown")
        other.go("#/list?q=fresh")
        other.until_text("0 shown")
        window.page.get_by_role("link", name="Details of lives").click()
        window.page.get_by_label("Name").fill("fresh-name")
        window.page.get_by_role("button", name="Save").click()
        assert "fresh-name" in other.until_text("1 shown")
        # By another door, and of a process that no other event will be about.
        assert asking("PATCH", "/v1/processes/ended", body={"tags": {"kind": "fresh"}}).status == 200
        assert "ended" in other.until_text("2 shown")


@pytest.mark.promise("U.tree")
def test_the_tree_shows_what_started_what_and_what_was_left_behind(
    window: Browser, own_server: OutliveServer, tmp_path: Path
) -> None:
    asking = Requests(own_server)
    inner = f"{sys.executable} -m outlive run -d --name child -- sleep 60"
    (tmp_path / "go").touch()
    line = f"{inner} && while [ -e {tmp_path / 'go'} ]; do sleep 0.05; done"
    environment = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "PATH"))}
    asking.start(line, name="parent", grant="run", project=str(tmp_path), env=environment)
    asking.start("sleep 60 & exit 0", name="leaver")
    address = open_page(window, own_server)
    window.until_text("left 1 running")
    window.until_text("child")
    window.page.get_by_label("Shown as").select_option("As a tree")
    shown = window.until_text("REST")
    assert window.place == "#/list?as=tree"
    assert shown.index(str(tmp_path)) < shown.index("parent") < shown.index("child")
    for name, level in (("parent", "3"), ("child", "4"), ("leaver", "3")):
        row = window.page.get_by_role("row").filter(has=window.page.get_by_text(name, exact=True))
        expect(row).to_have_attribute("aria-level", level)
    own_server.kill()
    own_server.start()
    (tmp_path / "go").unlink()
    window.until_text("left behind by parent")
    window.page.get_by_role("button", name="Fold parent", exact=True).click()
    names = window.page.locator(".what > b")
    window.until(lambda: sorted(names.all_inner_texts()) == ["leaver", "parent"])
    window.reload()
    window.until(lambda: sorted(names.all_inner_texts()) == ["leaver", "parent"])
    window.open(f"{address}#/list?as=tree&q=parent")
    window.until_text("1 shown")


@pytest.mark.promise("U.usage")
def test_processor_memory_and_ports_are_shown_while_a_row_is_in_sight(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    program = (
        "import http.server; s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), "
        "http.server.SimpleHTTPRequestHandler); print(s.server_port, flush=True); s.serve_forever()"
    )
    asking.start(f'{sys.executable} -c "{program}"', name="serves")
    asking.start("while :; do :; done", name="spins")
    window.until(lambda: asking("GET", "/v1/processes/serves/output").body["chunks"])
    port = asking("GET", "/v1/processes/serves/output").body["chunks"][0]["data"].strip()
    open_page(window, own_server)
    window.until_text(f":{port}")
    page = window.page
    expect(page.get_by_role("link", name=f":{port}")).to_have_attribute("href", f"http://127.0.0.1:{port}")
    row = page.get_by_role("row").filter(has_text="spins")
    expect(row).to_have_text(re.compile(r"[1-9]\d* %"))
    expect(row.locator(".line-cpu polyline")).to_have_attribute("points", re.compile(r"\d"))
    # What is out of sight is asked for no more.
    window.go("#/list?q=nothing-is-called-so")
    window.until_text("0 shown")
    asked = (
        "(() => { const s = WebSocket.prototype.send; window.sent = []; WebSocket.prototype.send = "
        "function (t) { window.sent.push(t); return s.call(this, t); }; })()"
    )
    window.value(asked)
    page.wait_for_timeout(2500)
    assert not [one for one in window.value("window.sent") if "usage" in one]


@pytest.mark.promise("U.list")
def test_a_page_that_only_looks_has_nothing_to_click(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start("sleep 60", name="looked-at")
    open_page(window, own_server, "--scope", "read")
    assert "only looks" in window.until_text("looked-at")
    expect(window.page.get_by_role("main").get_by_role("button")).to_have_count(0)
    window.page.get_by_role("link", name="Details of looked-at").click()
    window.until_text("Started by")
    main = window.page.get_by_role("main")
    expect(main.get_by_role("button").or_(main.get_by_label("Name"))).to_have_count(0)
    # The server refuses it, whatever a page offers.
    token = window.value("Object.values(sessionStorage)[0]")
    reading = Requests(own_server, token)
    for method, verb, body in (
        ("POST", "/rerun", {}),
        ("POST", "/signal", {"signal": "INT"}),
        ("PATCH", "", {"name": "other"}),
    ):
        assert reading(method, f"/v1/processes/looked-at{verb}", body=body).slug == "scope_missing"


@pytest.mark.promise("U.list")
def test_list_and_details_fit_a_phone(phone: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start(f"sleep 60 # {'long-' * 60}", name="wide", tags={"a": "b" * 300})
    address = open_page(phone, own_server)
    for view in ("list?sort=age", "list?as=tree"):
        phone.open(f"{address}#/{view}")
        phone.page.get_by_role("link", name="Details of wide").click()
        phone.until_text("Send signal")
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 375
        phone.page.get_by_role("link", name="Close").click()
        expect(phone.page.get_by_text("Send signal")).to_have_count(0)


@pytest.mark.promise("U.list")
def test_words_of_a_command_are_text_whatever_they_say(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start(
        "true # <img src=x onerror=document.title=1> <script>document.title=2</script>"
    )
    open_page(window, own_server)
    window.until_text("<img src=x")
    assert window.page.title() == "outlive"
    expect(window.page.locator("main img, main script")).to_have_count(0)
