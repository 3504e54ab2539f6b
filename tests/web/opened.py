"""The page, opened as `outlive ui` opens it."""

import json

from tests.support.browsing import Browser
from tests.support.server import OutliveServer, run_outlive


def open_page(window: Browser, server: OutliveServer, *words: str) -> str:
    """Open the page by a file with a code; return its address."""
    made = run_outlive("ui", "--json", *words, state_dir=server.state_dir)
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    window.do("Page.navigate", url=f"file://{told['file']}")
    window.until(lambda: window.value("location.href") == told["address"])
    return str(told["address"])
