"""`outlive search`, from outside: a text in the output of all processes."""

import json
from pathlib import Path

import pytest

from outlive.client import Client
from tests.support.server import OutliveServer, run_outlive


@pytest.mark.promise("C.search")
def test_a_text_is_found_in_every_output_with_what_its_process_is_called(
    served: OutliveServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / ".git").mkdir()
    project = str(tmp_path)
    named = client.start("echo needle one; echo other; echo needle two >&2", name="web", project=project)
    short = client.start("printf 'no newline: NEEDLE \\033[31m'", project=project)
    elsewhere = client.start("seq 1 30000; echo needle at the end", group="g")
    for process in (named, short, elsewhere):
        process.wait(20, until="closed")

    def found(*words: str) -> tuple[int, list[str]]:
        done = run_outlive("search", *words, state_dir=served.state_dir, cwd=tmp_path)
        return done.returncode, done.stdout.splitlines()

    end = elsewhere.process_id[-6:]
    assert found("needle") == (0, [f"{end}: needle at the end", "web: needle one", "web: needle two"])
    assert found("-i", "needle", "--project")[1][0] == "p2: no newline: NEEDLE  [31m"
    assert found("needle", "-n", "1", "web") == (0, ["web: needle one"])
    assert found("needle", "--group", "g") == (0, [f"{end}: needle at the end"])
    assert found("no such text") == (1, [])
    code, lines = found("--json", "needle two")
    assert (code, json.loads(lines[0])["process_id"]) == (0, named.process_id)
