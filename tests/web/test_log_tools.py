"""What a person does with a log in a real Chromium: goes to a line, folds steps, finds, chooses, saves.

And what a hidden page asks.
"""

import re

import pytest

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, expect
from tests.support.server import OutliveServer
from tests.web.opened import open_page, output_lines

pytestmark = pytest.mark.thorough


def _run(server: OutliveServer, line: str) -> str:
    asking = Requests(server)
    process_id = str(asking.start(line)["process_id"])
    asking("GET", f"/v1/processes/{process_id}/wait?timeout=30")
    return process_id


def _look(window: Browser, server: OutliveServer, process_id: str, query: str = "") -> None:
    open_page(window, server)
    window.until_text("shown")
    window.go(f"#/log/{process_id}{query}")


def _until(window: Browser, expression: str, wanted: object) -> None:
    window.until(
        lambda: window.value(expression) == wanted,
        lambda: f"{window.value(expression)}: {window.text[:1500]}",
    )


def _until_line(window: Browser, text: str) -> None:
    """Wait until a line says just that."""
    expect(output_lines(window).filter(has_text=re.compile(f"^{re.escape(text)}$")).first).to_be_visible()


def _press(window: Browser, text: str) -> None:
    """Click a button that says so."""
    window.page.get_by_role("button", name=text, exact=True).click()


def _until_chosen(window: Browser, *texts: str) -> None:
    """Wait until these lines are marked as chosen, and no other."""
    expect(window.page.locator(".is-chosen > span")).to_have_text(list(texts))


@pytest.mark.promise("U.log.tools")
def test_lines_are_gone_to_chosen_and_linked_and_times_are_shown(
    window: Browser, own_server: OutliveServer
) -> None:
    process_id = _run(own_server, "seq 1 400000; echo wrong >&2")
    _look(window, own_server, process_id)
    _until_line(window, "400000")
    page = window.page
    number = page.get_by_label("Go to line")
    number.fill("250000")
    number.press("Enter")
    _until_chosen(window, "250000")
    expect(page.locator(".is-chosen").get_by_role("rowheader")).to_have_text("250000")
    # A click chooses a line, with shift everything up to it.
    page.get_by_text("250003", exact=True).first.click(modifiers=["Shift"])
    _until_chosen(window, "250000", "250001", "250002", "250003")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    _press(window, "Copy text")
    copied = "navigator.clipboard.readText()"
    _until(window, copied, "250000\n250001\n250002\n250003\n")
    _press(window, "Copy link")
    window.until(lambda: "lines=" in page.evaluate(copied))
    address = page.evaluate(copied)
    assert "token" not in address
    _press(window, "Times")
    expect(page.locator(".line time").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d\d\d$"))
    _press(window, "Times")
    expect(page.locator(".line time")).to_have_count(0)
    # The link leads to the same lines.
    window.go("#/list")
    window.until_text("shown")
    window.open(address)
    _until_chosen(window, "250000", "250001", "250002", "250003")


@pytest.mark.promise("U.log.tools")
def test_steps_are_folded_and_a_text_is_found_hit_by_hit(window: Browser, own_server: OutliveServer) -> None:
    script = (
        "echo ::group::Build; seq 1 3; echo ::endgroup::; seq 1 120000; echo '##[group]Test'; echo "
        "needle; echo needle two"
    )
    process_id = _run(own_server, script)
    _look(window, own_server, process_id)
    _until_line(window, "needle two")
    page = window.page
    expect(page.get_by_role("button", name="▾ Test", expanded=True)).to_be_visible()
    _press(window, "Beginning")
    build = page.get_by_role("button", name="Build 3")
    expect(build).to_have_attribute("aria-expanded", "false")
    assert output_lines(window).all_inner_texts()[1:3] == ["1", "2"]
    build.click()
    expect(build).to_have_attribute("aria-expanded", "true")
    window.until(lambda: output_lines(window).all_inner_texts()[1:5] == ["1", "2", "3", "1"])
    find = page.get_by_label("Search in this output")
    find.fill("NEEDLE")
    find.press("Enter")
    window.until_text("1 of 2")
    _until_chosen(window, "needle")
    _press(window, "Next hit")
    window.until_text("2 of 2")
    _until_chosen(window, "needle two")
    assert "find=NEEDLE" in window.place
    find.fill("nowhere")
    find.press("Enter")
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
        }}); }""")  # noqa: E501 -- lines of a table, or of another language
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
    expect(output_lines(window).filter(has_text="number ").first).to_be_visible()
    window.value("""window.asked = [];
        const had = WebSocket.prototype.send;
        WebSocket.prototype.send = function (text) { window.asked.push(String(text)); return had.call(this, text); };
        const fetched = window.fetch;
        window.fetch = (...words) => { window.asked.push(String(words[0])); return fetched(...words); };
        Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});
        window.isHidden = true""")  # noqa: E501 -- lines of a table, or of another language
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
    window.until_text("killed (KILL)")
    # What has ended and was read to its end is asked for no more, seen or not.
    window.until(
        lambda: (
            window.value(
                "(window.asked.length = 0, new Promise((done) => setTimeout(() => done(window.asked), 700)))"
            )
            == []
        )
    )
