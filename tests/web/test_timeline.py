"""The timeline: what it decides, in plain Node, and what a person does with it, in a real Chromium."""

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.house.sources import ROOT
from tests.support.browsing import Browser
from tests.support.server import OutliveServer
from tests.vscode.installed import skip_or_fail
from tests.web.opened import open_page

_BARS = "[...document.querySelectorAll('.bar-span')]"


@pytest.mark.promise("U.timeline")
def test_the_timeline_decides_as_its_tests_say(tmp_path: Path) -> None:
    reason = None if shutil.which("node") else "no Node is installed (Debian: apt-get install nodejs)"
    skip_or_fail(reason, required_by="OUTLIVE_REQUIRE_PROGRAMS")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(ROOT / "src/outlive/frontends/web/assets", tmp_path / "page")
    shutil.copyfile(ROOT / "tests/web/timeline.mjs", tmp_path / "timeline.mjs")
    done = subprocess.run(
        ["node", "--test", "timeline.mjs"],
        cwd=tmp_path,
        env={**os.environ, "TZ": "Europe/Berlin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 6" in done.stdout


@pytest.mark.thorough
@pytest.mark.promise("U.timeline")
def test_a_day_is_one_sentence_what_failed_first_and_bars_that_lead_to_logs(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    for command, options in (
        ("echo why; exit 3", {"name": "broken", "project": "/srv/a"}),
        ("true", {"name": "fine", "project": "/srv/b"}),
        ("sleep 60", {"name": "late", "timeout": 0.2}),
    ):
        process_id = asking.start(command, **options)["process_id"]
        asking("GET", f"/v1/processes/{process_id}/wait?timeout=20")
    open_page(window, own_server)
    window.until_text("3 shown")
    window.click("a[href='#/timeline']")
    shown = window.until_text("3 ended, 2 of them failed.")
    assert "by itself, exit 3" in shown
    assert "its time was up" in shown
    assert shown.index("late") < shown.index("fine"), "what failed is said before everything else"
    assert window.value(f"{_BARS}.length") == 3
    inside = f"{_BARS}.every((one) => {{ const box = one.getBoundingClientRect(); return box.width >= 3 && box.right <= innerWidth + 3; }})"
    assert window.value(inside)
    # Live: what starts is a bar, and what ends changes the sentence.
    asking.start("sleep 60", name="begun-elsewhere")
    window.until_text("3 ended, 2 of them failed, 1 runs.")
    asking("POST", "/v1/processes/begun-elsewhere/control", body={"action": "cancel"})
    window.until_text("4 ended, 2 of them failed, 1 was stopped.")
    window.click(".looks a")
    window.until(lambda: str(window.value("location.hash")).startswith("#/log/"))
    # The address holds project and filter.
    window.value("location.hash = '#/timeline?project=%2Fsrv%2Fa'")
    window.until_text("1 ended, 1 of them failed.")
    window.value("location.hash = '#/timeline?only=bad'")
    window.until(lambda: window.value(f"{_BARS}.length") == 2)


@pytest.mark.thorough
@pytest.mark.promise("U.timeline")
def test_a_killed_server_is_marked_and_an_hour_is_chosen_by_the_axis(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    process_id = asking.start("exit 0", name="before")["process_id"]
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=20")
    open_page(window, own_server)
    window.value("location.hash = '#/timeline'")
    window.until_text("1 ended.")
    own_server.kill()
    own_server.start()
    window.until_text("A server was killed after")
    assert window.value("document.querySelectorAll('.bar-row .gap').length") >= 1
    yesterday = window.value("new Date(Date.now() - 86400000).toLocaleDateString('sv')")
    window.click("[aria-label='The day before']")
    window.until_text("Nothing ended.")
    assert f"day={yesterday}" in window.value("location.hash")
    window.click("[aria-label='Show the hour from 12:00']")
    window.until_text("12:10")
    assert window.value("location.hash").endswith("hour=12")
    window.reload()
    assert "12:10" in window.until_text("Nothing ended.")
    # By keys alone: the first bar is reached and followed.
    window.value("location.hash = '#/timeline'")
    window.until_text("1 ended.")
    window.value("document.querySelector('.bar-row').focus()")
    window.do(
        "Input.dispatchKeyEvent",
        type="keyDown",
        key="Enter",
        code="Enter",
        windowsVirtualKeyCode=13,
        text="\r",
    )
    window.until(lambda: process_id in window.value("location.hash"))


@pytest.mark.thorough
@pytest.mark.promise("U.timeline")
def test_of_thousands_of_bars_those_in_sight_are_drawn_and_they_fit_a_phone(
    window: Browser, own_server: OutliveServer
) -> None:
    """The server's answers are replaced on their way, so that no five thousand processes have to run."""
    open_page(window, own_server)
    window.until_text("shown")
    begun = datetime.now(UTC) - timedelta(minutes=1)
    one = Requests(own_server).start("true", name="many")
    window.until_text("many")
    one |= {
        "state": "exited",
        "exit_code": 1,
        "created_at": begun.isoformat(),
        "started_at": begun.isoformat(),
    }
    one |= {"ended_at": (begun + timedelta(seconds=9)).isoformat(), "descendants": 0, "cause": None}
    window.do("Emulation.setDeviceMetricsOverride", width=375, height=700, deviceScaleFactor=1, mobile=True)
    try:
        window.value(
            f"""import('/ui/timeline/timeline.js').then(({{lived}}) => {{
                location.hash = '#/timeline';
                return new Promise((done) => setTimeout(done, 500)).then(() => {{
                    const one = {json.dumps(one)};
                    const processes = Array.from({{length: 5000}}, (_, n) => ({{...one, process_id: one.process_id.slice(0, -5) + String(10000 + n)}}));
                    lived.value = {{...lived.value, processes, isWhole: true}};
                }});
            }})"""
        )
        window.until_text("5000 ended, 5000 of them failed.")
        assert window.value("document.documentElement.scrollWidth") <= 375
        assert 0 < window.value(f"{_BARS}.length") < 60, "of thousands only what is in sight is drawn"
        window.value("document.querySelector('.timeline .rows').scrollTop = 150000")
        window.until(
            lambda: "13" in window.value("document.querySelector('.bar-row').getAttribute('href')")[-5:]
        )
        assert window.value("document.querySelector('.timeline .rows').scrollTop") > 100_000
    finally:
        window.do("Emulation.clearDeviceMetricsOverride")
