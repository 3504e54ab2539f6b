"""The machine's charts and tables: what they decide, in plain Node, and what a person sees, in a real
Chromium.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.house.sources import ROOT
from tests.support.browsing import Browser, expect
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
    window.page.get_by_role("link", name="Machine").click()
    window.until_text("3 started, 1 failed")
    window.until(lambda: window.value(_PAINTED)[:3] == [True] * 3, lambda: str(window.value(_PAINTED)))
    table = window.page.get_by_role("table", name="By project")

    def rows() -> list[str]:
        return [" ".join(row.split("\t")[:4]) for row in table.locator("tbody tr").all_inner_texts()]

    assert rows() == ["/srv/a 2 2 1", "/srv/b 1 1 0"]
    window.go("#/machine?span=hour&project=%2Fsrv%2Fb")
    window.until_text("1 started, 0 failed")
    assert rows() == ["/srv/b 1 1 0"]
    # A killed server: the page goes on by itself.
    own_server.kill()
    own_server.start()
    asking = Requests(own_server)
    window.until_text("outlive")
    window.page.get_by_role("navigation", name="Parts").get_by_role("link", name="Disk").click()
    window.until_text("What the server removes")
    expect(window.page.get_by_role("table", name="Disk by project").locator("tbody tr")).to_have_count(2)


@pytest.mark.thorough
@pytest.mark.promise("U.machine")
def test_what_lives_is_looked_at_while_it_is_shown_also_on_a_phone(
    phone: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("exec sleep 60", project="/srv/a")
    open_page(phone, own_server, "--scope", "read")
    phone.until_text("1 shown")
    phone.go("#/machine")
    phone.until_text("busy now")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 375
    phone.until(lambda: phone.page.evaluate(_PAINTED) == [True] * 5)
    expect(phone.page.get_by_role("main").get_by_role("button")).to_have_count(0)


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
    window.go("#/machine?show=groups")
    # Limit and turns are asked for on their own, and come a moment later.
    shown = window.until_text("2 run, 0 paused, 2 wait, 2 at a time")
    assert shown.index("three") < shown.index("four"), "in the order of their turns"
    assert "beside" not in shown
    window.page.get_by_role("button", name="Make four the next", exact=True).click()
    window.until(lambda: window.text.index("four") < window.text.index("three"))
    expect(window.page.get_by_role("button", name="Move four forward")).to_have_count(0)
    window.page.get_by_role("button", name="Pause all of night", exact=True).click()
    assert "paused" not in states(), "once is a slip of the hand"
    window.page.get_by_role("button", name="Really Pause all of night", exact=True).click()
    window.until_text("0 run, 2 paused, 2 wait")
    assert states() == ["paused", "paused", "queued", "queued", "running"]
    window.page.get_by_role("button", name="Resume all of night", exact=True).click()
    window.page.get_by_role("button", name="Really Resume all of night", exact=True).click()
    window.until_text("2 run, 0 paused, 2 wait")
    window.page.get_by_role("button", name="Stop all of night", exact=True).click()
    window.page.get_by_role("button", name="Really Stop all of night", exact=True).click()
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
    window.go("#/machine?show=settings")
    shown = window.until_text("flag: --retention")
    assert "3d" in shown
    assert "output_limit" not in shown, "defaults are shown on a click"
    window.page.get_by_role("searchbox", name="Filter settings").fill("output_limit")
    expect(window.page.get_by_role("cell", name="output_limit", exact=True)).to_be_visible()
    assert "q=output_limit" in window.place
    window.go("#/machine?show=places")
    shown = window.until_text("away")
    assert "north" in shown
    assert "This machine" in shown
    window.go("#/machine?show=checks")
    window.until_text("runs here")
    assert window.page.get_by_role("table", name="Checks").get_by_role("row").count() > 10


@pytest.mark.thorough
@pytest.mark.promise("U.settings", "U.groups")
def test_a_page_that_only_looks_has_no_settings_and_no_button(
    window: Browser, own_server: OutliveServer
) -> None:
    Requests(own_server).start("sleep 60", name="one", group="night")
    open_page(window, own_server, "--scope", "read")
    window.until_text("1 shown")
    window.go("#/machine?show=settings")
    window.until_text("What lives now")
    expect(window.page.get_by_role("link", name="Settings")).to_have_count(0)
    window.go("#/machine?show=groups")
    window.until_text("1 run, 0 paused, 0 wait")
    expect(window.page.get_by_role("main").get_by_role("button")).to_have_count(0)
    token = window.value("sessionStorage.getItem('outlive.token')")
    for path in ("/v1/settings", "/v1/checks"):
        answer = Requests(own_server, token)("GET", path)
        assert (answer.status, answer.slug) == (403, "scope_missing"), "the server refuses anyway"
