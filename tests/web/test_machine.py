"""The machine's charts and tables: what they decide, in plain Node, and what a person sees, in a real Chromium."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.house.sources import ROOT
from tests.support.browsing import Browser
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
    assert "# pass 5" in done.stdout


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
    window.until(lambda: window.value(_PAINTED) == [True] * 3, lambda: str(window.value(_PAINTED)))
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
