"""A log of 5 GB in a real Chromium opens as one of 5 KB does: what is fetched and kept is counted, the clock
is only told.
"""

import time

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page, output_lines

pytestmark = [pytest.mark.rare, pytest.mark.timeout(600)]

_SIZE = 5 * 1024**3
_LINE = b"a line of a large log, as a build writes it, of eighty characters with its end\n"
_FETCHED = (
    "performance.getEntriesByType('resource').filter((one) => "
    "one.name.includes('/output')).reduce((sum, one) => sum + one.transferSize, 0)"
)


def _heap_bytes(window: Browser) -> int:
    """Return what the tab's scripts keep, after garbage was collected."""
    window.do("HeapProfiler.collectGarbage")
    return int(window.do("Runtime.getHeapUsage")["usedSize"])


def _open(window: Browser, server: OutliveServer, process_id: str, text: str) -> tuple[float, int, int]:
    """Return the seconds until the log's last line is drawn, the bytes fetched for it, and the tab's
    memory.
    """
    open_page(window, server)
    window.until_text("shown")
    before = _heap_bytes(window)
    begun = time.monotonic()
    window.go(f"#/log/{process_id}")
    expect(output_lines(window).filter(has_text=text).first).to_be_visible()
    return time.monotonic() - begun, window.value(_FETCHED), _heap_bytes(window) - before


@pytest.mark.promise("U.log")
def test_five_gigabytes_open_as_five_kilobytes_do(
    window: Browser, own_server: OutliveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = Requests(own_server)
    small = asking.start("seq 1000; echo last-line")["process_id"]
    text = _LINE.decode().strip()
    line = f"yes '{text}' | head -c {_SIZE - _SIZE % len(_LINE)}; echo last-line"
    large = asking.start(line, output_limit=2 * _SIZE)["process_id"]
    while (process := asking("GET", f"/v1/processes/{large}/wait?timeout=3").body)["timed_out"]:
        pass
    assert process["stdout_bytes"] > _SIZE - 100
    count = _SIZE // len(_LINE)
    figures = {}
    for name, process_id in (("5 KB", small), ("5 GB", large)):
        figures[name] = _open(window, own_server, process_id, "last-line")
    _, fetched, heap = figures["5 GB"]
    assert fetched < 1_000_000
    assert heap < 30_000_000
    # Its middle, its beginning, and a line near its end are there as soon.
    begun = time.monotonic()
    window.go(f"#/log/{large}?lines={_SIZE // 2 - _SIZE // 2 % len(_LINE)}-{_SIZE // 2 + 10}")
    expect(output_lines(window).filter(has_text=text).first).to_be_visible()
    middle_s = time.monotonic() - begun
    begun = time.monotonic()
    number = window.page.get_by_label("Go to line")
    number.fill(str(count))
    number.press("Enter")
    expect(window.page.locator(".is-chosen").get_by_role("rowheader")).to_have_text(str(count))
    line_s = time.monotonic() - begun
    assert _heap_bytes(window) < 60_000_000
    with capsys.disabled():
        for name, (one_s, one_fetched, one_heap) in figures.items():
            print(
                (
                    f"\n{name}: last line after {one_s:.2f} s, {one_fetched} bytes fetched, {one_heap} bytes "
                    "kept"
                ),
                end="",
            )
        print(f"\n5 GB: its middle after {middle_s:.2f} s, line {count} after {line_s:.2f} s")
