"""Fixtures: the real server with the suite's fixture profile, on a state folder and a free port of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.support.fixtures import anyio_backend
from tests.support.server import OutliveServer, run_outlive

__all__ = ["anyio_backend", "fixture_server"]


@pytest.fixture
def fixture_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OutliveServer]:
    """A server that offers the fixtures beside the product's tools."""
    monkeypatch.setenv("OUTLIVE_TEST_COMMAND", f"{sys.executable} -m tests.conformance.serve")
    state_dir = tmp_path / "state"
    state_dir.mkdir(mode=0o700)
    env = {"PYTHONPATH": str(ROOT)}
    made = run_outlive("token", "create", "--name", "suite", "--scope", "run", state_dir=state_dir, env=env)
    env["OUTLIVE_SUITES_TOKEN"] = made.stdout.strip()
    with OutliveServer(state_dir, env=env) as server:
        yield server
