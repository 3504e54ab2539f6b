"""The kill storm over services as a test: STORM_KILLS and STORM_SEED size and repeat it."""

from pathlib import Path

import pytest

from tests.extensions.services.service_storm import service_storm


@pytest.mark.slow
@pytest.mark.promise("V.once", "V.return", "V.restart")
@pytest.mark.timeout(1800)
def test_services_run_once_and_rest_as_they_should_whatever_is_killed(
    tmp_path: Path, storm_kills: int, storm_seed: int
) -> None:
    report = service_storm(tmp_path / "state", kills=max(10, storm_kills // 2), seed=storm_seed)
    print(report)
    assert report.faults == []
