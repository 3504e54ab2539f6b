"""The official MCP conformance suite against the real server with the suite's fixture profile
(fixtures.py).
"""

from pathlib import Path

import pytest

from tests.conformance.suite import expected_failures, installed_suite, run_suite
from tests.support.server import OutliveServer


@pytest.fixture(scope="module")
def suite() -> list[str]:
    """The installed suite."""
    return installed_suite()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.promise("M.conformance")
@pytest.mark.parametrize(
    ("revision", "scored_count", "task_checks"), [("2025-11-25", 30, 0), ("2026-07-28", 37, 44)]
)
def test_every_scored_scenario_of_a_revision_passes(
    suite: list[str],
    fixture_server: OutliveServer,
    tmp_path: Path,
    revision: str,
    scored_count: int,
    task_checks: int,
) -> None:
    code, output, verdicts = run_suite(suite, fixture_server.mcp_url, revision, tmp_path / "results")
    scored = [verdict for verdict in verdicts if verdict.is_scored]
    passed = sum(verdict.counted["SUCCESS"] for verdict in scored)
    print(f"{revision}: {len(scored)} scored scenarios, {passed} checks passed")
    assert [complaint for verdict in scored for complaint in verdict.complaints] == []
    assert [verdict.scenario for verdict in scored if not verdict.counted["SUCCESS"]] == []
    assert len(scored) == scored_count, output[-3000:]
    assert code == 0, output[-3000:]
    # What a revision runs without scoring it: all but what is listed, and everything listed.
    unscored = {verdict.scenario: verdict for verdict in verdicts if not verdict.is_scored}
    failed = {name for name, verdict in unscored.items() if verdict.has_failed}
    complaints = [complaint for verdict in unscored.values() for complaint in verdict.complaints]
    assert failed == expected_failures() & unscored.keys(), complaints
    tasks = [verdict for name, verdict in unscored.items() if name.startswith("tasks-")]
    checks = sum(verdict.counted["SUCCESS"] for verdict in tasks)
    print(f"{revision}: {len(tasks)} scenarios of the tasks extension, {checks} checks passed")
    assert checks == task_checks


def test_only_what_is_no_requirement_may_fail() -> None:
    assert expected_failures() == {"http-custom-header-server-validation"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.promise("M.conformance", "M.resources")
@pytest.mark.parametrize(
    ("revision", "scenarios"),
    [
        (
            "2025-11-25",
            {"ping", "resources-list", "server-initialize", "server-session-lifecycle", "tools-list"},
        ),
        (
            "2026-07-28",
            {"http-header-validation", "resources-list", "sep-2164-resource-not-found", "tools-list"},
        ),
    ],
)
def test_what_needs_no_fixture_passes_against_the_product_alone(
    suite: list[str], server: OutliveServer, tmp_path: Path, revision: str, scenarios: set[str]
) -> None:
    """The fixtures' own resources and lists would hide what the product answers."""
    _, output, verdicts = run_suite(suite, server.mcp_url, revision, tmp_path / "results")
    passed = {
        verdict.scenario for verdict in verdicts if verdict.counted["SUCCESS"] and not verdict.has_failed
    }
    assert scenarios <= passed, (scenarios - passed, output[-3000:])
