"""Two runs of a command are compared in the page, by clicks and by the address, streaming through both
outputs.
"""

from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough


def _runs(asking: Requests, folder: Path, *states: str) -> list[str]:
    """Run one command again and again, which writes what a file says; return the ids."""
    ids: list[str] = []
    for state in states:
        (folder / "mood").write_text(state)
        # 600 KB, three pages, before the line that differs; the number in it is another one each time.
        line = (
            "seq -f 'line %06.0f of the log' 24000; cat mood; echo took $RANDOM.$$; echo warned >&2; "
            "grep -q bad mood && exit 4; true"
        )
        one = asking.start(line, cwd=str(folder), name=f"run-{len(ids)}")
        asking("GET", f"/v1/processes/{one['process_id']}/wait?timeout=20")
        ids.append(one["process_id"])
    return ids


@pytest.mark.promise("U.compare")
def test_a_run_is_compared_with_the_one_before_by_a_click(
    window: Browser, own_server: OutliveServer, tmp_path: Path
) -> None:
    asking = Requests(own_server)
    first, second, third = _runs(asking, tmp_path, "well\n", "well\n", "bad\n")
    address = open_page(window, own_server)
    page = window.page
    page.get_by_role("link", name="Details of run-2").click()
    page.get_by_role("region", name="Details of run-2").get_by_role("link", name="Compare").click()
    shown = window.until_text("Compared,")
    assert window.place == f"#/compare/{third}"
    assert "Standard output differs first in line 24001." in shown
    assert "Standard error is the same." in shown
    expect(page.get_by_role("group", name="First difference in stdout").locator("pre")).to_have_text(
        ["bad", "well"]
    )
    assert page.locator(".differs").get_by_role("rowheader").all_inner_texts()[:2] == ["State", "Exit code"]
    # The address holds both, and what counts; the server may have been killed meanwhile.
    own_server.kill()
    own_server.start()
    window.open(f"{address}#/compare/{second}/{first}")
    window.reload()
    assert "differs first in line 24002." in window.until_text("Compared,")
    page.get_by_label("any number is like any other").click()
    assert "Standard output is the same." in window.until_text("output is the same")
    assert window.place == f"#/compare/{second}/{first}?numbers=same"
    window.go(f"#/compare/{first}")
    window.until_text("No earlier run")
    window.go(f"#/log/{third}")
    expect(page.get_by_role("link", name="Compare with the last run")).to_be_visible()


@pytest.mark.promise("U.compare")
def test_a_last_run_that_the_pages_list_does_not_hold_is_found(
    running_chromium: Chromium, own_server: OutliveServer, tmp_path: Path
) -> None:
    """The page lists so many and no more; here the answers are cut to the newest two."""
    cut = (
        "const parse = JSON.parse; JSON.parse = (text) => { const told = parse(text);"
        " if (told?.result?.processes?.length > 2) told.result.processes.length = 2; return told; };"
    )
    asking = Requests(own_server)
    first = asking.start("date; true", cwd=str(tmp_path), name="first")["process_id"]
    for number in range(3):
        asking.start(f"echo {number}", name=f"between-{number}")
    second = asking.start("date; true", cwd=str(tmp_path), name="second")["process_id"]
    with running_chromium.window(script=cut) as window:
        open_page(window, own_server)
        window.until_text("2 shown")
        window.click("[aria-label='Details of second']")
        window.click(".details a[href^='#/compare']")
        assert "Compared," in window.until_text("Compared,")
        assert window.place == f"#/compare/{second}"
        assert window.value("document.querySelectorAll('thead a')[1].hash") == f"#/log/{first}"
