"""Programs as agents run them, on material made for the test: what their output costs is measured on the real
thing.
"""

import base64
import hashlib
import http.server
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

_WORDS = ("parses", "keeps", "refuses", "joins", "splits", "forgets", "repeats", "closes")
_NOUNS = ("header", "cursor", "session", "frame", "record", "folder", "signal", "gap", "stream", "token")
_PLACES = ("at_once", "after_a_kill", "in_order", "twice", "without_input")


@dataclass(frozen=True, slots=True)
class Sample:
    """One program: `prepare` makes its material in a folder and yields the command line; `needs` is not
    everywhere.
    """

    name: str
    prepare: Callable[[Path], Iterator[str]]
    pty: bool = False
    needs: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def prepared(self, folder: Path) -> Iterator[str]:
        """Yield the command line; what serves it is stopped afterwards."""
        steps = self.prepare(folder)
        yield next(steps)
        for _ in steps:
            raise AssertionError("a sample has one command")

    @property
    def is_missing(self) -> bool:
        """Whether this machine lacks the program."""
        return self.needs is not None and shutil.which(self.needs) is None


def _git_clone(folder: Path) -> Iterator[str]:
    """A repository of 3000 files; `file://` makes git pack and transfer as over a network."""
    origin = folder / "origin"
    origin.mkdir()
    for number in range(3000):
        (origin / f"file{number:04d}.txt").write_text(f"{number}\n" * 40)
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gc.auto=0"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "files"]):
        subprocess.run(["git", *who, *words], cwd=origin, env=quiet, check=True)
    yield f"git clone --progress {shlex.quote(f'file://{origin}')} {shlex.quote(str(folder / 'clone'))}"


class _Slow(http.server.SimpleHTTPRequestHandler):
    """Takes its time, as a network does: a bar is drawn in many frames."""

    def copyfile(self, source: Any, outputfile: Any) -> None:  # noqa: ANN401 -- the base class's types
        """Send some 100 pieces in a second and a half."""
        while piece := source.read(256 * 1024):
            outputfile.write(piece)
            time.sleep(0.015)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
        """Say nothing."""


def _pip_install(folder: Path) -> Iterator[str]:
    """A wheel of 24 MB from an HTTP server of the test's own: pip draws its bar for downloads only."""
    wheel = folder / "small_thing-1.0-py3-none-any.whl"
    files = {
        "small_thing/__init__.py": b"",
        "small_thing/data.bin": os.urandom(24 << 20),
        "small_thing-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: small-thing\nVersion: 1.0\n",
        "small_thing-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("small_thing-1.0.dist-info/RECORD", "".join(rows))
    serve = partial(_Slow, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}/{wheel.name}"
            options = (
                "--isolated --no-cache-dir --disable-pip-version-check --no-deps --root-user-action ignore"
            )
            target = shlex.quote(str(folder / "target"))
            yield f"{shlex.quote(sys.executable)} -m pip install {options} --target {target} {address}"
        finally:
            server.shutdown()
            thread.join()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _pytest(folder: Path) -> Iterator[str]:
    """400 tests with names as people give them, one of which fails."""
    names = [f"test_it_{a}_the_{b}_{c}" for a in _WORDS for b in _NOUNS for c in _PLACES]
    bodies = [f"def {name}():\n    assert {name != names[250]}\n" for name in names]
    (folder / "test_generated.py").write_text("\n\n".join(bodies))
    options = "-v -p no:cacheprovider -p no:hypothesispytest --color no --rootdir ."
    yield (
        f"cd {shlex.quote(str(folder))}; {shlex.quote(sys.executable)} -m pytest {options} test_generated.py"
    )


def _ls(folder: Path) -> Iterator[str]:
    """4000 files in 80 folders."""
    for number in range(80):
        below = folder / f"{_NOUNS[number % 10]}{number:02d}"
        below.mkdir()
        for file in range(50):
            (below / f"{_WORDS[file % 8]}-{file:03d}.txt").write_bytes(b"x" * (number + file))
    yield f"ls -laR {shlex.quote(str(folder))}"


def _spinner(folder: Path) -> Iterator[str]:
    """Three steps with a spinner each, one frame a step of 600."""
    program = (
        "import sys\n"
        "for step in ('resolving', 'fetching', 'linking'):\n"
        "    for turn in range(600):\n"
        "        print(f'\\r\\x1b[36m{\"|/-\" [turn % 3]}\\x1b[0m {step} ({turn}/600)', end='', flush=True)\n"
        "    print(f'\\r\\x1b[K\\x1b[32m+\\x1b[0m {step} done')\n"
    )
    path = folder / "spinner.py"
    path.write_text(program)
    yield f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


SAMPLES = (
    Sample("git clone", _git_clone, pty=True, needs="git"),
    Sample("pip install", _pip_install, pty=True),
    Sample("pytest -v", _pytest),
    Sample("ls -laR", _ls),
    Sample("spinner", _spinner, pty=True),
)
