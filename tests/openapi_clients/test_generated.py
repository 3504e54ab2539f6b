"""Clients that public generators make of /openapi.json: all of them imports, and they run a command."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_BIN = ROOT / ".openapi-clients/bin"
_DRIVING = Path(__file__).with_name("driving.py")
# Generator -> the words that make a client of DOCUMENT in FOLDER, and what it says of something it leaves
# out.
_GENERATORS = {
    "openapi-python-client": (
        "openapi-python-client generate --path DOCUMENT --output-path FOLDER",
        "WARNING",
    ),
    "openapi-generator": ("openapi-generator-cli generate -g python -i DOCUMENT -o FOLDER", "ERROR"),
}


def _program(name: str) -> str:
    """Return a generator's path; skip the test, or fail where it must not be skipped, without it."""
    reason = None
    if not (_BIN / name).exists():
        reason = "the generators are not installed: scripts/openapi-clients.sh"
    elif name == "openapi-generator-cli" and shutil.which("java") is None:
        reason = "openapi-generator needs Java"
    if reason is not None:
        if os.environ.get("OUTLIVE_REQUIRE_OPENAPI_CLIENTS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return str(_BIN / name)


def _run(words: list[str]) -> str:
    # One generator formats with a program that lies beside it.
    env = os.environ | {"PATH": f"{_BIN}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.thorough
@pytest.mark.promise("R.document")
@pytest.mark.parametrize("generator", _GENERATORS)
def test_a_generated_client_imports_whole_and_runs_a_command(
    generator: str, server: OutliveServer, tmp_path: Path
) -> None:
    line, complaint = _GENERATORS[generator]
    name, *options = line.split()
    program = _program(name)
    document, folder = tmp_path / "openapi.json", tmp_path / "client"
    document.write_bytes(RestCaller(server.rest_url).call("GET", "/openapi.json").body)
    paths = {"DOCUMENT": str(document), "FOLDER": str(folder)}
    said = _run([program, *(paths.get(one, one) for one in options)])
    assert complaint not in said, said
    seen = json.loads(_run([str(_BIN / "python"), str(_DRIVING), generator, str(folder), server.rest_url]))
    assert seen.pop("modules") > 50
    assert seen == {
        "exit_code": 3,
        "output": {"stdout": "hello", "stderr": "world"},
        "problem": "process_not_found",
        "terminal": "42\n",
        "closed": True,
    }
