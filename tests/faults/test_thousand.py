"""Many live processes: one supervisor after the other has them all again, and every exit code is right."""

from pathlib import Path

import pytest

from tests.faults.thousand import thousand


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_thousand_processes_survive_their_supervisors(tmp_path: Path) -> None:
    figures = thousand(tmp_path / "state")
    print(figures)
    assert figures.faults == []
