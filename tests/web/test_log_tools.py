"""What a person does with a log in a real Chromium: goes to a line, folds steps, finds, chooses, saves; and what a hidden page asks."""

import json

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser
from tests.support.server import OutliveServer
from tests.web.opened import open_page

pytestmark = pytest.mark.thorough

_LINES = "[...document.querySelectorAll('.line > span')].map((one) => one.innerText)"
_CHOSEN = "[...document.querySelectorAll('.is-chosen > span')].map((one) => one.innerText)"


def _run(server: OutliveServer, line: str) -> str:
    asking = Requests(server)
    process_id = str(asking.start(line)["process_id"])
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=30")
    return process_id


def _look(window: Browser, server: OutliveServer, process_id: str, query: str = "") -> None:
    open_page(window, server)
    window.until_text("shown")
    window.value(f"location.hash = '#/log/{process_id}{query}'")


def _until(window: Browser, expression: str, wanted: object) -> None:
    window.until(
        lambda: window.value(expression) == wanted,
        lambda: f"{window.value(expression)}: {window.text[:1500]}",
    )


def _until_line(window: Browser, text: str) -> None:
    window.until(lambda: text in window.value(_LINES), lambda: f"{text!r}: {window.text[:1500]}")


def _press(window: Browser, text: str) -> None:
    """Click a button that says so."""
    window.value(
        f"[...document.querySelectorAll('button')].find((one) => one.textContent.trim() === {json.dumps(text)}).id = 'wanted'"
    )
    window.click("#wanted")
    window.value("document.getElementById('wanted')?.removeAttribute('id')")


@pytest.mark.promise("U.log.tools")
def test_lines_are_gone_to_chosen_and_linked_and_times_are_shown(
    window: Browser, own_server: OutliveServer
) -> None:
    process_id = _run(own_server, "seq 1 400000; echo wrong >&2")
    _look(window, own_server, process_id)
    _until_line(window, "400000")
    window.type("250000\r", into="[aria-label='Go to line']")
    _until(window, f"{_CHOSEN}.join()", "250000")
    _until(window, "document.querySelector('.is-chosen .line-number')?.textContent", "250000")
    # A click chooses a line, with shift everything up to it.
    numbers = "[...document.querySelectorAll('.line-number')].find((one) => one.textContent === '250003')"
    click = "new MouseEvent('click', {bubbles: true, cancelable: true, shiftKey: true})"
    window.until(lambda: window.value(f"{numbers}?.dispatchEvent({click}) !== undefined"))
    _until(window, f"{_CHOSEN}.join()", "250000,250001,250002,250003")
    window.value("() => { navigator.clipboard.writeText = async (text) => void (window.copied = text); }")
    _press(window, "Copy text")
    _until(window, "window.copied", "250000\n250001\n250002\n250003\n")
    _press(window, "Copy link")
    window.until(lambda: "lines=" in window.value("window.copied"))
    address = window.value("window.copied")
    assert "token" not in address
    _press(window, "Times")
    _until(
        window,
        r"/^\d\d:\d\d:\d\d\.\d\d\d$/.test(document.querySelector('.line time')?.textContent)",
        wanted=True,
    )
    _press(window, "Times")
    _until(window, "document.querySelector('.line time')", None)
    # In another tab the link leads to the same lines.
    window.value("location.hash = '#/list'")
    window.until_text("shown")
    window.value(f"location.href = {json.dumps(address)}")
    _until(window, f"{_CHOSEN}.join()", "250000,250001,250002,250003")


@pytest.mark.promise("U.log.tools")
def test_steps_are_folded_and_a_text_is_found_hit_by_hit(window: Browser, own_server: OutliveServer) -> None:
    script = "echo ::group::Build; seq 1 3; echo ::endgroup::; seq 1 120000; echo '##[group]Test'; echo needle; echo needle two"
    process_id = _run(own_server, script)
    _look(window, own_server, process_id)
    _until_line(window, "needle two")
    assert any("▾ Test" in line for line in window.value(_LINES))
    _press(window, "Beginning")
    window.until(lambda: "▸ Build 3" in window.value(f"{_LINES}[0] ?? ''"))
    assert window.value(f"{_LINES}.slice(1, 3).join()") == "1,2"
    window.click(".step")
    window.until(lambda: window.value(f"{_LINES}.slice(1, 5).join()") == "1,2,3,1")
    window.type("NEEDLE\r", into="[name='find']")
    window.until_text("1 of 2")
    _until(window, f"{_CHOSEN}.join()", "needle")
    window.click("[aria-label='Next hit']")
    window.until_text("2 of 2")
    _until(window, f"{_CHOSEN}.join()", "needle two")
    assert "find=NEEDLE" in window.value("location.hash")
    window.value("document.querySelector('[name=find]').value = ''")
    window.type("nowhere\r", into="[name='find']")
    window.until_text("Nothing found")


@pytest.mark.promise("U.log.tools")
@pytest.mark.parametrize("has_picker", [True, False])
def test_a_log_is_saved_as_it_is_and_as_clean_text(
    window: Browser, own_server: OutliveServer, *, has_picker: bool
) -> None:
    """Where a browser asks for a file, pieces pass through the tab into it."""
    process_id = _run(own_server, r"seq 1 300000; printf '\033[31mred\033[0m\n10%%\r99%%\n'")
    _look(window, own_server, process_id)
    _until_line(window, "99%")
    if has_picker:
        window.value("""() => { window.files = []; window.showSaveFilePicker = async () => ({createWritable: async () => {
            const parts = []; window.files.push(parts);
            return new WritableStream({write: (part) => void parts.push(part), close: () => void (parts.isClosed = true)});
        }}); }""")
    else:
        window.value("delete window.showSaveFilePicker")
    whole = "".join(f"{n}\n" for n in range(1, 300_001))
    for press, ending, rest in (
        ("Download", ".log", "\x1b[31mred\x1b[0m\n10%\r99%\n"),
        ("Clean text", ".txt", "red\n99%\n"),
    ):
        if has_picker:
            _press(window, press)
            _until(
                window,
                "window.files.filter((one) => one.isClosed).length",
                ("Download", "Clean text").index(press) + 1,
            )
            text = window.value("new Blob(window.files.at(-1)).text()")
            assert window.value("Math.max(...window.files.at(-1).map((one) => one.byteLength))") < 3_000_000
        else:
            with window.page.expect_download() as begun:
                _press(window, press)
            assert begun.value.suggested_filename == f"{process_id[-6:]}{ending}"
            text = begun.value.path().read_bytes().decode()
        assert text == whole + rest


@pytest.mark.promise("U.log.hidden")
def test_a_hidden_page_asks_for_nothing_and_goes_on_when_it_is_seen(
    window: Browser, own_server: OutliveServer
) -> None:
    counting = "for n in $(seq 2000); do echo number $n; sleep 0.02; done"
    process_id = Requests(own_server).start(counting)["process_id"]
    _look(window, own_server, process_id)
    window.until(lambda: "number " in "".join(window.value(_LINES)), lambda: window.text)
    window.value("""window.asked = [];
        const had = WebSocket.prototype.send;
        WebSocket.prototype.send = function (text) { window.asked.push(String(text)); return had.call(this, text); };
        const fetched = window.fetch;
        window.fetch = (...words) => { window.asked.push(String(words[0])); return fetched(...words); };
        Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});
        window.isHidden = true""")
    # What was on its way when the page was hidden is answered; from then on it asks nothing.
    asking = Requests(own_server)
    path = f"/v1/processes/{process_id}"
    before = asking("GET", path).body["stdout_bytes"]
    window.until(lambda: asking("GET", path).body["stdout_bytes"] > before + 300)
    window.value("window.asked.length = 0")
    before = asking("GET", path).body["stdout_bytes"]
    window.until(lambda: asking("GET", path).body["stdout_bytes"] > before + 900)
    assert window.value("window.asked") == []
    window.value("window.isHidden = false")
    window.until(lambda: window.value("window.asked.length") > 1)
    asking("POST", f"{path}/signal", body={"signal": "KILL"})
    window.until_text("signal 9")
    # What has ended and was read to its end is asked for no more, seen or not.
    window.until(
        lambda: (
            window.value(
                "(window.asked.length = 0, new Promise((done) => setTimeout(() => done(window.asked), 700)))"
            )
            == []
        )
    )
