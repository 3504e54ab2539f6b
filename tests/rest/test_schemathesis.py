"""schemathesis against the real server: nothing that a caller may send is answered with 500 or against the
document.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

# What random lines may start: these write to their output only, and a line that does more is refused.
_HARMLESS = "true,echo,printf,cat"
_SEED = "1"
_PATIENCE_S = 280  # some 2,000 requests, each checked against the document: a minute on a machine of its own


@pytest.fixture
def harmless(tmp_path: Path) -> Iterator[RestCaller]:
    """A server that may be told anything."""
    with OutliveServer(tmp_path / "state", env={"ALLOWED_COMMANDS": _HARMLESS}) as server:
        yield RestCaller(server.rest_url)


def _run(
    rest: RestCaller, folder: Path, *options: str, parameters: str = "", without: str = "follow$"
) -> None:
    config = folder / "schemathesis.toml"
    config.write_text(f'[parameters]\n"query.timeout" = 0.01\n{parameters}')
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)]
    command += ["run", f"{rest.url}/openapi.json", "--seed", _SEED, "--no-color", "--request-timeout", "20"]
    # A line that is well-formed may still name what is not there (422): accepting all valid data is no
    # promise.
    command += ["--exclude-checks", "positive_data_acceptance"]
    # Streams do not end while a command runs.
    command += ["--exclude-path-regex", without, *options]
    ran = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Test cases:" in ran.stdout


@pytest.mark.thorough
@pytest.mark.promise("R.document")
def test_a_few_requests_of_every_kind_are_answered_as_documented(
    harmless: RestCaller, tmp_path: Path
) -> None:
    _run(harmless, tmp_path, "--phases", "examples,fuzzing", "--max-examples", "3")


@pytest.mark.promise("R.document")
@pytest.mark.slow
@pytest.mark.timeout(_PATIENCE_S + 20)
def test_many_requests_are_answered_as_documented(harmless: RestCaller, tmp_path: Path) -> None:
    _run(harmless, tmp_path, "--phases", "examples,coverage,fuzzing", "--max-examples", "8")


@pytest.mark.slow
@pytest.mark.timeout(_PATIENCE_S + 20)
def test_many_requests_about_a_real_process_are_answered_as_documented(
    harmless: RestCaller, tmp_path: Path
) -> None:
    process_id = harmless.run("echo hello")["process_id"]
    _run(
        harmless,
        tmp_path,
        *("--phases", "examples,coverage,fuzzing", "--max-examples", "8", "--exclude-method", "DELETE"),
        parameters=f'"path.process_id" = "{process_id}"\n',
    )


@pytest.mark.slow
@pytest.mark.timeout(_PATIENCE_S + 20)
def test_many_requests_about_a_real_terminal_are_answered_as_documented(tmp_path: Path) -> None:
    names = {"ALLOWED_COMMANDS": f"bash,{_HARMLESS}", "SHELL": "/bin/bash", "HOME": str(tmp_path)}
    with OutliveServer(tmp_path / "state", env=names) as server:
        rest = RestCaller(server.rest_url)
        terminal_id = rest.call("POST", "/v1/terminals", {}, expect=201).json["terminal_id"]
        _run(
            rest,
            tmp_path,
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "8", "--exclude-method", "DELETE"),
            *("--include-path-regex", "^/v1/terminals/"),
            parameters=f'"path.terminal_id" = "{terminal_id}"\n',
            # a Ctrl-S typed at random stops the terminal: what is typed next waits for 30 s
            without="input$",
        )
