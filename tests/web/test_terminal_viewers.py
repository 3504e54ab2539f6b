"""Several pages of one terminal in real Chromiums: one types, the others see it in its size; search.

And what a hidden page costs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, Chromium, expect
from tests.support.server import OutliveServer
from tests.web.opened import WITHOUT_WEBGL, open_page, start_shell

pytestmark = pytest.mark.thorough

_LETTERBOX = re.compile(r"\bletterbox\b")


@pytest.fixture
def windows(running_chromium: Chromium) -> Iterator[tuple[Browser, Browser]]:
    """Two windows that share nothing, of which the second is smaller."""
    with (
        running_chromium.window(script=WITHOUT_WEBGL, size=(900, 700)) as one,
        running_chromium.window(script=WITHOUT_WEBGL, size=(500, 700)) as two,
    ):
        yield one, two


def _press(window: Browser, text: str) -> None:
    window.page.get_by_role("button", name=text, exact=True).click()


def _size(server: OutliveServer, window: Browser, mark: str) -> str:
    """Ask the shell for the terminal's size, by typing."""
    window.type(f"echo {mark}-$(stty size | tr ' ' x)\r")
    shown = window.until_shown(f"\n{mark}-")
    return shown.rsplit(f"\n{mark}-", 1)[1].split()[0]


@pytest.mark.promise("U.terminal.hold", "T.hold")
def test_one_page_types_and_the_other_looks_until_it_takes_over(
    windows: tuple[Browser, Browser], own_server: OutliveServer
) -> None:
    one, two = windows
    process_id = start_shell(own_server)
    for window in windows:
        open_page(window, own_server)
        window.until_text("shown")
        window.go(f"#/terminal/{process_id}")
        window.until_shown("here>")
    one.until_text("You type, one other viewer looks on")
    two.until_text("Another viewer types")
    size = _size(own_server, one, "first")
    two.until_shown(f"first-{size}")
    expect(two.page.locator(".xterm-rows > div")).to_have_count(int(size.split("x")[0]))
    expect(two.page.locator(".screen")).to_have_class(_LETTERBOX)
    expect(one.page.locator(".screen")).not_to_have_class(_LETTERBOX)
    two.type("dropped\r")
    _press(two, "Take over")
    one.until_text("Another viewer types")
    smaller = _size(own_server, two, "second")
    assert int(smaller.split("x")[1]) < int(size.split("x")[1])
    one.until_shown(f"second-{smaller}")
    assert "dropped" not in one.shown
    # The server is killed: each goes on at the exact byte, and what typed before types again.
    own_server.kill()
    for window in windows:
        window.until_text("connection was lost")
    own_server.start()
    two.until_text("You type, one other viewer looks on")
    one.until_text("Another viewer types")
    again = _size(own_server, two, "third")
    assert again.split("x")[1] == smaller.split("x")[1]
    shown = one.until_shown(f"third-{again}\nhere>")
    assert [shown.count(f"\n{mark}-") for mark in ("first", "second", "third")] == [1, 1, 1]
    _press(two, "Hand back")
    one.until_text("No viewer types")
    last = _size(own_server, one, "fourth")
    assert last.split("x")[1] == size.split("x")[1], "a key takes what no viewer holds"
    two.until_text("Another viewer types")


# What stands above the terminal grows right behind the moment at which the terminal is dialled, as it does
# when the list comes late.
_GROW_BAR = """
const Had = window.WebSocket;
window.WebSocket = class extends Had {
    constructor(address, protocols) {
        super(address, protocols);
        if (!String(address).includes("/ws/terminal/")) return;
        queueMicrotask(() => (document.querySelector(".terminal .bar").style.height = "120px"));
    }
};
"""


@pytest.mark.promise("U.terminal.hold")
def test_the_size_that_a_window_had_when_it_dialled_is_its_own(
    running_chromium: Chromium, own_server: OutliveServer
) -> None:
    process_id = start_shell(own_server)
    with running_chromium.window(script=WITHOUT_WEBGL + _GROW_BAR) as window:
        open_page(window, own_server)
        window.until_text("shown")
        window.go(f"#/terminal/{process_id}")
        window.until_shown("here>")
        size = _size(own_server, window, "grown")
        expect(window.page.locator(".screen")).not_to_have_class(_LETTERBOX)
        expect(window.page.locator(".xterm-rows > div")).to_have_count(int(size.split("x")[0]))


@pytest.mark.promise("U.terminal.search")
def test_a_text_is_found_in_what_has_scrolled_away(
    windows: tuple[Browser, Browser], own_server: OutliveServer
) -> None:
    window, _ = windows
    process_id = start_shell(own_server)
    open_page(window, own_server)
    window.until_text("shown")
    window.go(f"#/terminal/{process_id}")
    window.until_shown("here>")
    window.type("seq 1000 2999; echo over\r")
    window.until_shown("\nover\nhere>")
    assert "1234" not in window.shown
    _press(window, "Search")
    find = window.page.get_by_label("Search in the terminal")
    find.fill("1234")
    find.press("Enter")
    window.until_shown("\n1234\n")
    window.until_text("1 of 1")
    find.fill("nowhere")
    find.press("Enter")
    window.until_text("Nothing found")


@pytest.mark.promise("U.terminal.hidden")
def test_a_hidden_page_hangs_up_and_goes_on_at_the_exact_byte(
    windows: tuple[Browser, Browser], own_server: OutliveServer
) -> None:
    window, _ = windows
    process_id = start_shell(own_server)
    open_page(window, own_server)
    window.until_text("shown")
    window.go(f"#/terminal/{process_id}")
    window.until_shown("here>")
    asking = Requests(own_server)

    def connections() -> int:
        return int(asking("GET", "/health").body["connections"])

    assert connections() == 2
    window.type("for n in $(seq 400); do echo n$n; sleep 0.01; done\r")
    window.until_shown("\nn1\n")
    window.value("""Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});
        window.isHidden = true; document.dispatchEvent(new Event('visibilitychange'))""")  # noqa: E501 -- lines of a table, or of another language
    window.until(lambda: connections() == 1)
    window.value("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
    window.until_shown("\nn400\nhere>")
    window.until(lambda: connections() == 2)
    expect(window.page.locator(".screen")).not_to_have_class(_LETTERBOX)
    window.type("echo again\r")
    window.until_shown("\nagain\nhere>")


_DROP = """(name, text) => {
    const files = new DataTransfer();
    files.items.add(new File([text], name));
    document.querySelector('.screen').dispatchEvent(new DragEvent('drop', {dataTransfer: files, bubbles: true, cancelable: true}));
}"""  # noqa: E501 -- lines of a table, or of another language


@pytest.mark.promise("U.terminal.drop")
def test_a_dropped_file_lies_in_the_shells_folder_and_is_named_at_the_cursor(
    windows: tuple[Browser, Browser], own_server: OutliveServer, tmp_path: Path
) -> None:
    window, _ = windows
    folder = tmp_path / "work in"
    folder.mkdir()
    process_id = start_shell(own_server)
    open_page(window, own_server)
    window.until_text("shown")
    window.go(f"#/terminal/{process_id}")
    window.until_shown("here>")
    window.type(f"cd '{folder}'; echo moved\r")
    window.until_shown("\nmoved\nhere>")
    window.type("cat ")
    window.value(f"({_DROP})('my data.txt', 'line\\n')")
    window.until((folder / "my data.txt").exists, lambda: window.text)
    window.until(
        lambda: "mydata.txt'" in window.shown.replace("\n", "").replace(" ", ""), lambda: window.shown
    )
    assert "\nline" not in window.shown, "nothing runs by itself"
    window.type("\r")
    window.until_shown("\nline\nhere>")
    window.value(f"({_DROP})('my data.txt', 'other')")
    window.until_text("is there already")
    assert (folder / "my data.txt").read_text() == "line\n"
    _press(window, "Replace it")
    window.until(lambda: (folder / "my data.txt").read_text() == "other")
