"""The page, opened as `outlive ui` opens it."""

import json
from typing import TYPE_CHECKING

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser
from tests.support.server import OutliveServer, run_outlive

if TYPE_CHECKING:
    from playwright.sync_api import Locator

# Lines that a graphics processor draws are no text in the document; without one xterm.js makes elements of
# them.
WITHOUT_WEBGL = """
const had = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
    return kind.startsWith("webgl") ? null : had.call(this, kind, ...more);
};
"""


def open_page(window: Browser, server: OutliveServer, *words: str) -> str:
    """Open the page by a file with a code; return its address."""
    made = run_outlive("ui", "--json", *words, state_dir=server.state_dir)
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    # Its form posts itself: the file is left before it is loaded whole.
    window.page.goto(f"file://{told['file']}", wait_until="commit")
    window.page.wait_for_url(told["address"])
    return str(told["address"])


def output_lines(window: Browser) -> "Locator":
    """Return the lines of output that a log's view has drawn."""
    return window.page.get_by_role("table", name="Lines of output").locator(".line > span")


def start_shell(server: OutliveServer) -> str:
    """Start bash on a terminal, with a prompt that tests know; return its process id."""
    line = "PS1='here> ' exec bash --norc --noprofile"
    return str(Requests(server).start(line, name="shell", pty=True, stdin="pipe")["process_id"])
