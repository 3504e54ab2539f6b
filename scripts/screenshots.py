"""Take pictures of the page's views in a real Chromium, into docs/images: what README and docs/web.md show.

    python -m scripts.screenshots                 # all of them
    python -m scripts.screenshots list log        # some
    python -m scripts.screenshots --into FOLDER

A server of its own runs what a small project would: a web server, tests that fail, a build, a question, a
command that waits for an approval, a terminal. The pictures are of that, so that they say what is true.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.attacks.attacking import Requests
from tests.support.browsing import Browser, browser
from tests.support.server import OutliveServer
from tests.web.opened import open_page

ROOT = Path(__file__).resolve().parents[1]
INTO = ROOT / "docs" / "images"
PROJECT = Path("/tmp/shop")  # noqa: S108 -- a short path that pictures may show; it is made anew, and refused where it is somebody's
WIDTH = 1180  # pixels, at which a row of the list has all its parts
SETTLED_S = 2.5  # until what is asked for every two seconds (processor time, memory) has been drawn

_TESTS = r"""
printf 'collected 4 items\n\n'
for one in test_cart test_checkout test_search; do printf 'tests/%s.py \033[32mPASSED\033[0m\n' "$one"; sleep 0.1; done
printf 'tests/test_refund.py \033[31mFAILED\033[0m\n\n'
echo "E   assert refund(order).total == 0" >&2
printf '\033[31m1 failed\033[0m, \033[32m3 passed\033[0m in 0.42s\n'
exit 1
"""  # noqa: E501 -- lines of a table, or of another language
_BUILD = r"""
for step in fetch compile bundle; do
    echo "::group::$step"; for n in 1 2 3 4 5; do echo "$step: part $n of 5"; done; echo "::endgroup::"
done
printf '\033[1mBuilt\033[0m dist/shop.tar.gz, \033[36m1.4 MB\033[0m\n'
"""
_WEB = r"""
n=0; while :; do n=$((n + 1)); echo "GET /cart/$n 200 $((n % 37 + 4)) ms"; sleep 0.3; done
"""


@contextmanager
def scene() -> Iterator[tuple[OutliveServer, dict[str, str]]]:
    """Yield a server that runs the project, and the ids of its processes by name."""
    PROJECT.mkdir()
    try:
        (PROJECT / ".git").mkdir()
        with (
            tempfile.TemporaryDirectory() as folder,
            OutliveServer(
                Path(folder) / "state",
                args=("--ask", "rm -r *", "--policy-opaque", "allow"),
                # Beside it lies what is approved for always.
                env={"OUTLIVE_CONFIG": str(_settings(Path(folder)))},
            ) as server,
        ):
            ask = Requests(server)
            started: dict[str, str] = {}

            def start(name: str, command: str, **more: Any) -> None:
                body = {
                    "command": command,
                    "name": name,
                    "cwd": str(PROJECT),
                    "project": str(PROJECT),
                    **more,
                }
                started[name] = ask("POST", "/v1/processes", body=body).body["process_id"]

            start("build", _BUILD, tags={"step": "build"})
            start("tests", _TESTS, tags={"step": "test"})
            start("web", _WEB, tags={"step": "serve"})
            start("docs", "exec python3 -u -m http.server 8123 --bind 127.0.0.1")
            question = "printf 'Apply 3 migrations to shop? [y/N] '; read answer; echo \"$answer\""
            start("migrate", question, stdin="pipe", pty=True)
            start(
                "shell",
                "PS1='shop$ ' exec bash --norc --noprofile",
                stdin="pipe",
                pty=True,
                rows=30,
                cols=110,
            )
            ask("POST", "/v1/processes", body={"argv": ["rm", "-r", "dist"], "cwd": str(PROJECT)})
            yield server, started
    finally:
        shutil.rmtree(PROJECT)


def _settings(folder: Path) -> Path:
    path = folder / "config.toml"
    path.write_text("")
    return path


def _go(window: Browser, address: str, text: str) -> None:
    window.page.evaluate("(hash) => { location.hash = hash; }", address)
    window.until_text(text)


def views_of(window: Browser, ids: dict[str, str]) -> dict[str, tuple[int, Callable[[], None]]]:
    """Return the views by name: how high a picture of each is, and how it is reached."""
    return {
        "list": (490, lambda: _go(window, "#/list", "asks")),
        "log": (350, lambda: _go(window, f"#/log/{ids['tests']}?times=1", "1 failed")),
        "search": (420, lambda: _go(window, "#/search?q=failed", "found")),
        "approvals": (560, lambda: _approval(window)),
        "questions": (360, lambda: _go(window, "#/questions", "migrations")),
        "timeline": (540, lambda: _go(window, "#/timeline", "failed")),
        "machine": (640, lambda: _go(window, "#/machine", "Activity")),
        "terminal": (400, lambda: _type(window, ids["shell"])),
    }


def take(window: Browser, into: Path, names: list[str], ids: dict[str, str]) -> None:
    """Show each view, let it settle, and write its picture."""
    for name, (height, show) in views_of(window, ids).items():
        if names and name not in names:
            continue
        window.page.set_viewport_size({"width": WIDTH, "height": height})
        show()
        time.sleep(SETTLED_S)
        window.page.screenshot(path=into / f"page-{name}.png")
        sys.stdout.write(f"{into / f'page-{name}.png'}\n")


def _approval(window: Browser) -> None:
    _go(window, "#/approvals", "1 waiting")
    window.page.get_by_text("Always in this project").click()


def _type(window: Browser, process_id: str) -> None:
    _go(window, f"#/terminal/{process_id}", "shell")
    window.type("printf '\\033[32mgoes on when the server is killed\\033[0m\\n'; seq 3 | paste -sd+ | bc\r")


def main() -> None:
    """Take the pictures that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="views; all, if none is named")
    parser.add_argument("--into", type=Path, default=INTO)
    asked = parser.parse_args()
    with scene() as (server, ids), browser() as window:
        open_page(window, server)
        window.until_text("web")
        take(window, asked.into, asked.names, ids)


if __name__ == "__main__":
    main()
