"""The timeline: what it decides, in plain Node, and what a person does with it, in a real Chromium."""

import json
import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.house.sources import ROOT
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.vscode.installed import skip_or_fail
from tests.web.opened import open_page

_BARS = ".bar-span"  # what is drawn of a row, and said in its words beside it


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
    window.page.get_by_role("link", name="Timeline").click()
    shown = window.until_text("3 ended, 2 of them failed.")
    assert "failed (exit 3)" in shown
    assert "timed out" in shown
    assert shown.index("late") < shown.index("fine"), "what failed is said before everything else"
    bars = window.page.locator(_BARS)
    expect(bars).to_have_count(3)
    inside = (
        "(all) => all.every((one) => { const box = one.getBoundingClientRect(); return box.width >= "
        "3 && box.right <= innerWidth + 3; })"
    )
    assert bars.evaluate_all(inside)
    # Live: what starts is a bar, and what ends changes the sentence.
    asking.start("sleep 60", name="begun-elsewhere")
    window.until_text("3 ended, 2 of them failed, 1 runs.")
    asking("POST", "/v1/processes/begun-elsewhere/control", body={"action": "cancel"})
    window.until_text("4 ended, 2 of them failed, 1 was stopped.")
    window.page.get_by_role("list", name="To look at first").get_by_role("link").first.click()
    window.page.wait_for_url("**/#/log/*")
    # The address holds project and filter.
    window.go("#/timeline?project=%2Fsrv%2Fa")
    window.until_text("1 ended, 1 of them failed.")
    window.go("#/timeline?only=bad")
    expect(bars).to_have_count(2)


@pytest.mark.thorough
@pytest.mark.promise("U.timeline")
def test_a_killed_server_is_marked_and_an_hour_is_chosen_by_the_axis(
    window: Browser, own_server: OutliveServer
) -> None:
    asking = Requests(own_server)
    process_id = asking.start("exit 0", name="before")["process_id"]
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=20")
    open_page(window, own_server)
    window.go("#/timeline")
    window.until_text("1 ended.")
    own_server.kill()
    own_server.start()
    window.until_text("A server was killed after")
    expect(window.page.locator(".bar-row .gap").first).to_be_attached()
    yesterday = window.value("new Date(Date.now() - 86400000).toLocaleDateString('sv')")
    window.page.get_by_role("button", name="The day before", exact=True).click()
    window.until_text("Nothing ended.")
    assert f"day={yesterday}" in window.place
    window.page.get_by_role("link", name="Show the hour from 12:00").click()
    window.until_text("12:10")
    assert window.place.endswith("hour=12")
    window.reload()
    assert "12:10" in window.until_text("Nothing ended.")
    # By keys alone: the first bar is reached and followed.
    window.go("#/timeline")
    window.until_text("1 ended.")
    window.page.get_by_role("row", name="before").press("Enter")
    window.page.wait_for_url(f"**{process_id}")


@pytest.mark.thorough
@pytest.mark.promise("U.timeline")
def test_of_thousands_of_bars_those_in_sight_are_drawn_and_they_fit_a_phone(
    phone: Browser, own_server: OutliveServer
) -> None:
    """The server's answers are replaced on their way, so that no five thousand processes have to run."""
    open_page(phone, own_server)
    phone.until_text("shown")
    begun = datetime.now(UTC) - timedelta(minutes=1)
    one = Requests(own_server).start("true", name="many")
    phone.until_text("many")
    one |= {
        "state": "exited",
        "exit_code": 1,
        "created_at": begun.isoformat(),
        "started_at": begun.isoformat(),
    }
    one |= {"ended_at": (begun + timedelta(seconds=9)).isoformat(), "descendants": 0, "cause": None}
    phone.page.evaluate(
        f"""import('/ui/timeline/timeline.js').then(({{lived}}) => {{
            location.hash = '#/timeline';
            return new Promise((done) => setTimeout(done, 500)).then(() => {{
                const one = {json.dumps(one)};
                const processes = Array.from({{length: 5000}}, (_, n) => ({{...one, process_id: one.process_id.slice(0, -5) + String(10000 + n)}}));
                lived.value = {{...lived.value, processes, isWhole: true}};
            }});
        }})"""  # noqa: E501 -- lines of a table, or of another language
    )
    phone.until_text("5000 ended, 5000 of them failed.")
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 375
    assert 0 < phone.page.locator(_BARS).count() < 60, "of thousands only what is in sight is drawn"
    table = phone.page.get_by_role("table", name="What ran, by its start")
    table.evaluate("(table) => { table.scrollTop = 150000; }")
    expect(table.get_by_role("row").first).to_have_attribute("href", re.compile("13...$"))
    assert table.evaluate("(table) => table.scrollTop") > 100_000
