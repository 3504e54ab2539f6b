"""Fixtures: the bundled extension, a server of the document, and a window connected to it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.vscode.document_server import DocumentServer, document_server
from tests.vscode.driving import Window, window
from tests.vscode.installed import Installed, installed_extension

OpenWindow = Callable[..., Window]


@pytest.fixture(scope="session")
def installed() -> Installed:
    """The bundled extension."""
    return installed_extension()


@pytest.fixture
def document() -> Iterator[DocumentServer]:
    """A server of document 003."""
    with document_server() as started:
        yield started


@pytest.fixture
def open_window(installed: Installed, tmp_path: Path) -> Iterator[OpenWindow]:
    """A function that opens a window: `open_window(url, settings={…}, integration="whole")`."""
    with ExitStack() as windows:
        count = 0

        def start(url: str, **words: object) -> Window:
            nonlocal count
            count += 1
            return windows.enter_context(window(installed, tmp_path / f"window{count}", url=url, **words))  # type: ignore[arg-type]  # passed on

        yield start
