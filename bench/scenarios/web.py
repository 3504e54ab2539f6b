"""The page in a real Chromium: how long until things are seen, beside xterm.js on a pty in its server's own
process.

Both are drawn by the same browser, by the same xterm.js with elements (no machine of a test has a graphics
processor), so that what differs is what lies below: our page, its WebSocket, the log on disk.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.context import Bench
from bench.measure import Section, Unavailable, Verdict
from bench.servers import naive_pty
from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, browser, pages
from tests.support.server import OutliveServer
from tests.web.opened import open_page

_PACKAGES = Path(__file__).resolve().parents[2] / ".xterm/node_modules"
_KEY = "ms, key to sight, p50"
_FLOOD = "s, a flood until its end is seen"
_STOP = "ms, Ctrl-C in a flood until the prompt is seen"
_STOP_KB = "KB that come between Ctrl-C in a flood and the prompt"
_HEAP = "MB of the tab's heap after it"
_OPENED = "s until it is seen"
_WIRE = "KB on the wire for the first view"
_PROMPT = "P> "
_SHELL = f"PS1='{_PROMPT}' exec bash --norc --noprofile"
_LINE = "0123456789" * 7 + "01234567"
_PATIENCE_S = 600.0
# In each page before its own scripts: terminals are drawn by elements, and what is pressed and seen is noted
# by the page's own clock.
_WATCH = """
HTMLCanvasElement.prototype.getContext = ((old) => function (kind, ...more) {
    return kind.startsWith("webgl") ? null : old.call(this, kind, ...more);
})(HTMLCanvasElement.prototype.getContext);
window.came = 0;
const listener = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
Object.defineProperty(WebSocket.prototype, "onmessage", { set(heard) {
    listener.set.call(this, (event) => { came += event.data.byteLength ?? 0; return heard(event); });
} });
window.times = []; window.pressed = 0; window.awaited = ""; window.seen = 0;
window.cameBefore = 0;
addEventListener("keydown", () => { pressed = performance.now(); cameBefore = came; }, true);
const rows = () => [...document.querySelectorAll(".xterm-rows > div")].map((one) => one.textContent.replaceAll("\\u00a0", " ").trimEnd()).join("\\n").trimEnd();
new MutationObserver(() => {
    if (pressed && !awaited) { times.push(performance.now() - pressed); pressed = 0; }
    if (awaited && rows().endsWith(awaited)) { seen = performance.now() - pressed; awaited = ""; pressed = 0; }
}).observe(document, { subtree: true, childList: true, characterData: true });
"""  # noqa: E501 -- lines of a table, or of another language
_BARE = """<!doctype html><link rel="stylesheet" href="node_modules/@xterm/xterm/css/xterm.css"><div id="at"></div>
<script type="module">
import {{ Terminal }} from "./node_modules/@xterm/xterm/lib/xterm.mjs";
const term = new Terminal({{ rows: 30, cols: 100 }});
term.open(document.getElementById("at"));
const socket = new WebSocket("ws://127.0.0.1:{port}/");
socket.binaryType = "arraybuffer";
socket.onopen = () => socket.send({command});
socket.onmessage = ({{ data }}) => term.write(new Uint8Array(data));
term.onData((data) => socket.send(data));
</script>"""  # noqa: E501 -- lines of a table, or of another language


def run(bench: Bench) -> Section:
    """Lists, logs, keys and floods in a browser."""
    if not (_PACKAGES / "@xterm/xterm").exists():
        raise Unavailable("xterm.js is not installed: scripts/xterm.sh")
    section = Section("web", "The page in Chromium", baseline="bare pty")
    with ExitStack() as stack:
        folder = stack.enter_context(bench.folder())
        window = stack.enter_context(browser(script=_WATCH))
        server = stack.enter_context(OutliveServer(folder / "state"))
        ask = Requests(server)
        bare = stack.enter_context(_bare_page(bench, folder))
        open_page(window, server)
        _measure_views(bench, section, window, server, ask)
        lanes: dict[str, Callable[[], None]] = {
            "ours": lambda: _open_ours(window, server, ask),
            "bare pty": lambda: _open_bare(window, bare),
        }
        for number in range(bench.pick(5, 2)):
            for label, opened in list(lanes.items())[:: 1 if number % 2 == 0 else -1]:
                bench.say(f"web: {label}")
                opened()
                _measure_terminal(bench, section, window, label)
    ours, bare_key = (section.row_median(one, _KEY) for one in lanes)
    if ours is not None and bare_key is not None:
        section.verdicts.append(Verdict("web_key", ours - bare_key))
    section.judge("web_flood", "ours", unit=_FLOOD, against="bare pty")
    section.judge("web_stop", "ours", unit=_STOP)
    section.notes.append("bare pty: bench/peers/naive_pty.py and xterm.js alone; nothing is kept there")
    section.notes.append(
        "ours draws a flood whole that runs at most 16 MiB ahead; of a larger one a part is skipped, and "
        "is in the output (decision 206)"
    )
    return section


@contextmanager
def _bare_page(bench: Bench, folder: Path) -> Iterator[str]:
    with naive_pty(bench) as at, pages(folder / "pages", packages=_PACKAGES) as origin:
        text = _BARE.format(port=at.port, command=json.dumps(_SHELL))
        (folder / "pages/bare.html").write_text(text)
        yield f"{origin}/bare.html"


def _measure_views(
    bench: Bench, section: Section, window: Browser, server: OutliveServer, ask: Requests
) -> None:
    """Measure the first view, a list of many processes, and logs of two sizes."""
    many, size = bench.pick(2000, 200), bench.pick(5_000_000_000, 50_000_000)
    for number in range(many):
        ask("POST", "/v1/processes", body={"argv": ["/bin/true"], "name": f"many-{number}"})
    small = ask.start("seq 500", name="small")["process_id"]
    large = ask.start(f"yes {_LINE} | head -c {size}; echo the-end", name="large", output_limit=2 * size)[
        "process_id"
    ]
    for one in (small, large):
        ask("GET", f"/v1/processes/{one}/wait?timeout=600")
    ready = f"{many + 2} shown"
    address = open_page(window, server)
    for _ in range(bench.pick(5, 2)):
        window.value("location.hash = '#/list'")
        begun = time.perf_counter()
        window.reload()
        window.until_text(ready)
        section.add(f"{many} processes are listed", _OPENED, value=time.perf_counter() - begun)
        for label, process_id, last in (
            ("a log of 2 KB", small, "500"),
            (f"a log of {size // 10**6} MB", large, "the-end"),
        ):
            window.value("location.hash = '#/list'")
            begun = time.perf_counter()
            window.value(f"location.hash = '#/log/{process_id}'")
            _until_line(window, last)
            section.add(label, _OPENED, value=time.perf_counter() - begun)
    loaded = "performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'))"
    window.do("Network.enable")
    window.do("Network.clearBrowserCache")
    window.open(address)
    window.until(lambda: window.value("document.readyState") == "complete")
    wire = window.value(f"{loaded}.reduce((sum, one) => sum + one.transferSize, 0)")
    section.add("the shell, an empty cache", _WIRE, value=wire / 1000)


def _until_line(window: Browser, end: str) -> None:
    lines = "[...document.querySelectorAll('.line')]"
    window.until(lambda: window.value(f"{lines}.some((one) => one.textContent.endsWith('{end}'))"))


def _open_ours(window: Browser, server: OutliveServer, ask: Requests) -> None:
    process_id = ask.start(_SHELL, pty=True, stdin="pipe", rows=30, cols=100)["process_id"]
    address = open_page(window, server)
    window.open(f"{address}#/terminal/{process_id}")
    window.reload()
    window.until(lambda: window.shown.endswith(_PROMPT.strip()), lambda: window.text)


def _open_bare(window: Browser, address: str) -> None:
    window.open("about:blank")
    window.open(address)
    window.until(lambda: window.shown.endswith(_PROMPT.strip()), lambda: window.text)


def _measure_terminal(bench: Bench, section: Section, window: Browser, label: str) -> None:
    keys, size = bench.pick(200, 40), bench.pick(100_000_000, 10_000_000)
    window.value("times.length = 0")
    for _ in range(keys):
        window.type("x")
        time.sleep(0.02)  # a fast typist; keys that are pressed at once are drawn together
    section.add(label, _KEY, value=statistics.median(window.value("times")))
    window.page.keyboard.press("Control+c")
    _await(window, _PROMPT.strip())
    section.add(
        label,
        _FLOOD,
        value=_timed(window, f"yes {_LINE} | head -c {size}; echo the''-end", f"the-end\n{_PROMPT.strip()}")
        / 1e3,
    )
    window.do("Performance.enable")
    heap = {one["name"]: one["value"] for one in window.do("Performance.getMetrics")["metrics"]}
    section.add(label, _HEAP, value=heap["JSHeapUsedSize"] / 1e6)
    window.type(f"yes {_LINE}\r")
    _await(window, _LINE)  # where the machine is slow, the flood begins late
    time.sleep(1.0)
    window.value(f"awaited = {json.dumps(_PROMPT.strip())}; seen = 0")
    window.page.keyboard.press("Control+c")
    section.add(label, _STOP, value=_seen(window))
    section.add(label, _STOP_KB, value=window.value("came - cameBefore") / 1e3)
    window.type("exit\r")


def _timed(window: Browser, line: str, end: str) -> float:
    """Type a line, press Enter, and return the milliseconds until the terminal ends with `end`."""
    window.type(line)
    window.value(f"awaited = {json.dumps(end)}; seen = 0")
    window.page.keyboard.press("Enter")
    return _seen(window)


def _await(window: Browser, end: str) -> None:
    window.until(lambda: window.shown.endswith(end), lambda: window.shown)


def _seen(window: Browser) -> float:
    deadline = time.monotonic() + _PATIENCE_S
    while not (found := float(window.value("seen"))):
        if time.monotonic() > deadline:
            raise Unavailable(f"nothing was seen: {window.shown[-200:]!r}")
        time.sleep(0.02)
    return found
