"""Fixtures: the real server with the suite's fixture profile, on a state folder and a free port of its
own.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.support.server import OutliveServer, heeded_path


@pytest.fixture
def fixture_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OutliveServer]:
    """A server that offers the fixtures beside the product's tools."""
    monkeypatch.setenv("OUTLIVE_TEST_COMMAND", f"{sys.executable} -m tests.conformance.serve")
    with OutliveServer(tmp_path / "state", env={"PYTHONPATH": heeded_path(ROOT)}) as server:
        yield server
