"""The machine's charts and tables: what they decide, in plain Node, and what a person sees, in a real Chromium."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.house.sources import ROOT
from tests.support.browsing import Browser
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer
from tests.vscode.installed import skip_or_fail
from tests.web.opened import open_page

_PAINTED = """[...document.querySelectorAll('.chart canvas')].map((one) => {
    const {data} = one.getContext('2d').getImageData(0, 0, one.width, one.height);
    return data.some((value, place) => place % 4 === 3 && value > 0);
})"""


@pytest.mark.promise("U.machine")
def test_the_machines_charts_decide_as_their_tests_say(tmp_path: Path) -> None:
    reason = None if shutil.which("node") else "no Node is installed (Debian: apt-get install nodejs)"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_PROGRAMS")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(ROOT / "src/outlive/frontends/web/assets", tmp_path / "page")
    shutil.copyfile(ROOT / "tests/web/machine.mjs", tmp_path / "machine.mjs")
    words = ["node", "--test", "machine.mjs"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 7" in done.stdout


@pytest.mark.thorough
@pytest.mark.promise("U.machine")
def test_starts_failures_and_disk_are_seen_over_time_and_by_project(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    for command, project in (("exit 3", "/srv/a"), ("true", "/srv/a"), ("true", "/srv/b")):
        process_id = asking.start(command, project=project)["process_id"]
        asking("GET", f"/v1/processes/{process_id}/wait?timeout=20&until=closed")
    open_page(window, own_server)
    window.until_text("3 shown")
    window.click("a[href='#/machine']")
    window.until_text("3 started, 1 failed")
    window.until(lambda: window.value(_PAINTED)[:3] == [True] * 3, lambda: str(window.value(_PAINTED)))
    rows = "[...document.querySelectorAll('table[aria-label=\"By project\"] tbody tr')].map((row) => row.innerText.split('\\t').slice(0, 4).join(' '))"
    assert window.value(rows) == ["/srv/a 2 2 1", "/srv/b 1 1 0"]
    window.value("location.hash = '#/machine?span=hour&project=%2Fsrv%2Fb'")
    window.until_text("1 started, 0 failed")
    assert window.value(rows) == ["/srv/b 1 1 0"]
    # A killed server: the page goes on by itself.
    own_server.kill()
    own_server.start()
    asking = Requests(own_server)
    window.until_text("outlive")
    window.click("a[href='#/machine?show=disk']")
    window.until_text("What the server removes")
    assert window.value("document.querySelectorAll('[aria-label=\"Disk by project\"] tbody tr').length") == 2


@pytest.mark.thorough
@pytest.mark.promise("U.machine")
def test_what_lives_is_looked_at_while_it_is_shown_also_on_a_phone(
    window: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("exec sleep 60", project="/srv/a")
    open_page(window, own_server, "--scope", "read")
    window.until_text("1 shown")
    window.do("Emulation.setDeviceMetricsOverride", width=375, height=700, deviceScaleFactor=1, mobile=True)
    try:
        window.value("location.hash = '#/machine'")
        window.until_text("busy now")
        assert window.value("document.documentElement.scrollWidth") <= 375
        window.until(lambda: window.value(_PAINTED) == [True] * 5)
        assert window.value("document.querySelectorAll('main button').length") == 0, "it only looks"
    finally:
        window.do("Emulation.clearDeviceMetricsOverride")


@pytest.mark.thorough
@pytest.mark.promise("U.groups")
def test_a_group_shows_its_line_and_is_paused_resumed_and_stopped_as_one(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    asking.start("sleep 60", name="one", group="night", group_limit=2)
    for name in ("two", "three", "four"):
        asking.start("sleep 60", name=name, group="night")
    asking.start("sleep 60", name="beside")

    def states() -> list[str]:
        names = ("one", "two", "three", "four", "beside")
        return [asking("GET", f"/v1/processes/{name}").body["state"] for name in names]

    open_page(window, own_server)
    window.until_text("5 shown")
    window.value("location.hash = '#/machine?show=groups'")
    shown = window.until_text("2 run, 0 paused, 2 wait")
    assert shown.index("three") < shown.index("four"), "in the order of their turns"
    assert "beside" not in shown
    assert "2 at a time" in shown
    window.click("[aria-label='Make four the next']")
    window.until(lambda: window.text.index("four") < window.text.index("three"))
    assert window.value("document.querySelector('[aria-label=\"Move four forward\"]')") is None
    window.click("[aria-label='Pause all of night']")
    assert "paused" not in states(), "once is a slip of the hand"
    window.click("[aria-label='Really Pause all of night']")
    window.until_text("0 run, 2 paused, 2 wait")
    assert states() == ["paused", "paused", "queued", "queued", "running"]
    window.click("[aria-label='Resume all of night']")
    window.click("[aria-label='Really Resume all of night']")
    window.until_text("2 run, 0 paused, 2 wait")
    window.click("[aria-label='Stop all of night']")
    window.click("[aria-label='Really Stop all of night']")
    window.until_text("Nothing lives in a group")
    assert states() == ["signaled", "signaled", *states()[2:4], "running"]
    assert not {"running", "queued"} & set(states()[2:4]), "what waited never ran"


@pytest.mark.thorough
@pytest.mark.promise("U.settings")
def test_settings_health_and_places_are_seen_by_an_admin(window: Browser, serve: ServerFactory) -> None:
    server = serve("--retention", "3d", "--node", "north=ws://127.0.0.1:9/ws/mcp")
    Requests(server).start("sleep 60", name="here")
    open_page(window, server)
    window.until_text("1 shown")
    window.value("location.hash = '#/machine?show=settings'")
    shown = window.until_text("flag: --retention")
    assert "3d" in shown
    assert "output_limit" not in shown, "defaults are shown on a click"
    window.type("output_limit", into="#filter")
    window.until_text("--output-limit" if "--output-limit" in window.text else "output_limit")
    assert "q=output_limit" in window.value("location.hash")
    window.value("location.hash = '#/machine?show=places'")
    shown = window.until_text("away")
    assert "north" in shown
    assert "This machine" in shown
    window.value("location.hash = '#/machine?show=checks'")
    window.until_text("runs here")
    assert window.value("document.querySelectorAll('[aria-label=Checks] tbody tr').length") > 10


@pytest.mark.thorough
@pytest.mark.promise("U.settings", "U.groups")
def test_a_page_that_only_looks_has_no_settings_and_no_button(
    window: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("sleep 60", name="one", group="night")
    open_page(window, own_server, "--scope", "read")
    window.until_text("1 shown")
    window.value("location.hash = '#/machine?show=settings'")
    window.until_text("What lives now")
    assert window.value("document.querySelector('a[href=\"#/machine?show=settings\"]')") is None
    window.value("location.hash = '#/machine?show=groups'")
    window.until_text("1 run, 0 paused, 0 wait")
    assert window.value("document.querySelectorAll('main button').length") == 0
    token = window.value("sessionStorage.getItem('outlive.token')")
    for path in ("/v1/settings", "/v1/checks"):
        answer = Requests(own_server, token)("GET", path)
        assert (answer.status, answer.slug) == (403, "scope_missing"), "the server refuses anyway"
