"""The list of processes, in a real Chromium: live, filtered by the address, and controlled by clicks."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium
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
    window.until_text("cancel")
    own_server.kill()
    window.until_text("The server is away")
    own_server.start()
    window.until(lambda: "The server is away" not in window.text, lambda: window.text)
    asking = Requests(own_server)
    asking.start("exit 7", name="after-the-kill")
    window.until_text("exit 7")


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
    window.type("kind=odd many-1", into="#filter")
    window.until_text("6 shown")
    assert window.value("location.hash") == "#/list?q=kind%3Dodd+many-1"
    window.open(f"{address}#/list?q=many-79&state=done")
    window.until_text("1 shown")
    assert window.value("document.querySelector('#filter').value") == "many-79"
    window.value("location.hash = '#/list?state=live'")
    window.until_text("0 shown")
    # By keys alone: "/" leads to the filter from wherever the focus is.
    window.value("document.activeElement.blur()")
    window.do("Input.dispatchKeyEvent", type="keyDown", key="/", text="/")
    assert window.value("document.activeElement.id") == "filter"


@pytest.mark.promise("U.list")
def test_a_process_is_paused_resumed_and_stopped_by_clicks(
    window: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("sleep 60", name="clicked")
    open_page(window, own_server)
    window.click("[aria-label='Pause clicked']")
    window.until(lambda: _state(own_server, "clicked") == "paused")
    window.click("[aria-label='Resume clicked']")
    window.until(lambda: _state(own_server, "clicked") == "running")
    window.click("[aria-label='Stop clicked']")
    assert _state(own_server, "clicked") == "running", "once is a slip of the hand"
    window.click("[aria-label='Really Stop clicked']")
    window.until_text("cancel")
    assert window.value("document.querySelector('button[aria-label*=clicked]')") is None


@pytest.mark.promise("U.list", "U.deeds")
def test_a_process_is_signalled_named_tagged_and_run_again(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    asking.start("trap 'echo heard' USR1; while :; do sleep 0.05; done", name="first")
    address = open_page(window, own_server)
    window.click("[aria-label='Details of first']")
    window.until_text("Send signal")
    window.value(
        "(one => { one.value = 'USR1'; one.dispatchEvent(new Event('change', {bubbles: true})); })"
        "(document.querySelector('[aria-label=Signal]'))"
    )
    window.until(lambda: window.value("document.querySelector('[aria-label=Signal]').value") == "USR1")
    window.click(".deeds form button")
    window.until(lambda: "heard" in str(asking("GET", "/v1/processes/first/output").body))
    fields = ".deeds label > input:not([type])"
    window.value(f"document.querySelectorAll('{fields}')[0].select()")
    window.type("second\r", into=fields)
    window.until_text("second")
    window.until(lambda: "name" in asking("GET", "/v1/processes/second").body)
    window.type("job=x, mine\r", into=".deeds form:last-of-type label > input")
    window.until(lambda: asking("GET", "/v1/processes/second").body["tags"] == {"job": "x", "mine": ""})
    window.open(f"{address}#/list?tag=job%3Dx&sort=name")
    assert "1 shown" in window.until_text("shown")
    # Its name is taken while it lives: the refusal is shown, and the same runs again once it has ended.
    window.click("[aria-label='Details of second']")
    window.click(".deeds > button")
    window.until_text("is the name of")
    window.click("[aria-label='Kill second']")
    window.click("[aria-label='Really Kill second']")
    window.until_text("Cancelled by")
    window.click(".deeds > button")
    window.until_text("2 shown")
    assert _state(own_server, "second") == "running"
    window.value("location.hash = '#/list?exit=failed'")
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
        other.value("location.hash = '#/list?q=fresh'")
        other.until_text("0 shown")
        window.click("[aria-label='Details of lives']")
        fields = ".deeds label > input:not([type])"
        window.value(f"document.querySelectorAll('{fields}')[0].select()")
        window.type("fresh-name\r", into=fields)
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
    window.value(
        "(one => { one.value = 'tree'; one.dispatchEvent(new Event('change', {bubbles: true})); })"
        "(document.querySelector('[aria-label=\"Shown as\"]'))"
    )
    shown = window.until_text("REST")
    assert window.value("location.hash") == "#/list?as=tree"
    assert shown.index(str(tmp_path)) < shown.index("parent") < shown.index("child")
    level = "[...document.querySelectorAll('.row')].find(one => one.querySelector('.what > b')?.innerText === '{}').ariaLevel"
    assert [window.value(level.format(name)) for name in ("parent", "child", "leaver")] == ["3", "4", "3"]
    own_server.kill()
    own_server.start()
    (tmp_path / "go").unlink()
    window.until_text("left behind by parent")
    window.click("[aria-label='Fold parent']")
    names = "[...document.querySelectorAll('.what > b')].map(one => one.innerText).sort().join()"
    window.until(lambda: window.value(names) == "leaver,parent")
    window.reload()
    window.until(lambda: window.value(names) == "leaver,parent")
    window.open(f"{address}#/list?as=tree&q=parent")
    window.until_text("1 shown")


@pytest.mark.promise("U.usage")
def test_processor_memory_and_ports_are_shown_while_a_row_is_in_sight(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    program = (
        "import http.server; s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)"
        "; print(s.server_port, flush=True); s.serve_forever()"
    )
    asking.start(f'{sys.executable} -c "{program}"', name="serves")
    asking.start("while :; do :; done", name="spins")
    window.until(lambda: asking("GET", "/v1/processes/serves/output").body["chunks"])
    port = asking("GET", "/v1/processes/serves/output").body["chunks"][0]["data"].strip()
    open_page(window, own_server)
    window.until_text(f":{port}")
    link = f"document.querySelector('.used a[href=\"http://127.0.0.1:{port}\"]')"
    assert window.value(f"{link} !== null")
    cell = "[...document.querySelectorAll('.row')].find(one => one.innerText.includes('spins')).querySelector('.used')"
    window.until(lambda: re.search(r"[1-9]\d* %", window.value(f"{cell}.innerText")))
    assert window.value(f"{cell}.querySelector('.line-cpu polyline').getAttribute('points').length > 0")
    # What is out of sight is asked for no more.
    window.value("location.hash = '#/list?q=nothing-is-called-so'")
    window.until_text("0 shown")
    asked = "(() => { const s = WebSocket.prototype.send; window.sent = []; WebSocket.prototype.send = function (t) { window.sent.push(t); return s.call(this, t); }; })()"
    window.value(asked)
    window.value("new Promise(resolve => setTimeout(resolve, 2500))")
    assert not [one for one in window.value("window.sent") if "usage" in one]


@pytest.mark.promise("U.list")
def test_a_page_that_only_looks_has_nothing_to_click(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start("sleep 60", name="looked-at")
    open_page(window, own_server, "--scope", "read")
    assert "only looks" in window.until_text("looked-at")
    assert window.value("document.querySelectorAll('main button').length") == 0
    window.click("[aria-label='Details of looked-at']")
    window.until_text("Started by")
    assert window.value("document.querySelectorAll('main button, .details input').length") == 0
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
def test_list_and_details_fit_a_phone(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start(f"sleep 60 # {'long-' * 60}", name="wide", tags={"a": "b" * 300})
    address = open_page(window, own_server)
    window.do("Emulation.setDeviceMetricsOverride", width=375, height=700, deviceScaleFactor=1, mobile=True)
    try:
        for view in ("list?sort=age", "list?as=tree"):
            window.open(f"{address}#/{view}")
            window.click("[aria-label='Details of wide']")
            window.until_text("Send signal")
            assert window.value("document.documentElement.scrollWidth") <= 375
            window.click(".details .bar a:last-child")
            window.until(lambda: "Send signal" not in window.text)
    finally:
        window.do("Emulation.clearDeviceMetricsOverride")


@pytest.mark.promise("U.list")
def test_words_of_a_command_are_text_whatever_they_say(window: Browser, own_server: OutliveServer) -> None:
    Requests(own_server).start(
        "true # <img src=x onerror=document.title=1> <script>document.title=2</script>"
    )
    open_page(window, own_server)
    window.until_text("<img src=x")
    assert window.value("document.title") == "outlive"
    assert window.value("document.querySelectorAll('main img, main script').length") == 0
