"""docs/rest.md works as printed: its curl lines with real curl, its program, its tables against the
document.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.consoles import commands
from tests.docs.pages import blocks, page, section, table_rows, words
from tests.keeper.house import House
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_TEXT = page("docs/rest.md")
_ADDRESS = "http://localhost:8181"


def _pattern(shown: str) -> str:
    """Return what an answer like the one shown looks like; … stands for anything, empty lines are not
    shown.
    """
    return r"\s*".join(re.escape(line).replace("…", ".*") for line in shown.splitlines())


def _typed(line: str, server: OutliveServer, variables: dict[str, str]) -> str:
    assert _ADDRESS in line
    ran = subprocess.run(
        ["sh", "-c", line.replace(_ADDRESS, server.rest_url)],
        env=dict(os.environ) | variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.promise("S4.7.list", "S4.7.terminate", "S4.7.companions", "R.start", "R.output", "R.follow")
def test_every_curl_line_says_what_the_page_shows(server: OutliveServer) -> None:
    shown = commands(_TEXT)
    assert len(shown) == 10
    variables: dict[str, str] = {}
    for line, answer in shown:
        said = _typed(line, server, variables)
        assert re.search(_pattern(answer), said), f"{line}:\n{said}"
        if "$ID" not in line and '"process_id"' in said and "ID" not in variables:
            variables["ID"] = json.loads(said)["process_id"]
        if "execute/background" in line:
            variables["PID"] = str(json.loads(said)["pid"])


def test_every_path_of_the_document_is_on_the_page(server: OutliveServer) -> None:
    document: dict[str, Any] = RestCaller(server.rest_url).call("GET", "/openapi.json").json
    wanted = {(path, method.upper()) for path, methods in document["paths"].items() for method in methods}
    told = {
        (words(row[0])[0], words(row[1])[0])
        for heading in ("## The paths", "## The documented paths")
        for row in table_rows(section(_TEXT, heading), "path")
    }
    assert told == wanted


def test_every_parameter_named_on_the_page_is_one(server: OutliveServer) -> None:
    document: dict[str, Any] = RestCaller(server.rest_url).call("GET", "/openapi.json").json
    names = {
        parameter["name"]
        for methods in document["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
    }
    members = set(document["components"]["schemas"]["StartRequest"]["properties"])
    for row in table_rows(section(_TEXT, "## The paths"), "path"):
        for word in words(row[2]):
            name = word.partition("=")[0]
            assert name in names | members | {"pause", "resume", "cancel"}, word
    said = section(_TEXT, "## The paths")
    taken = re.search(r"takes exactly one of (.*?), which mean", said, re.DOTALL)
    assert taken is not None
    assert set(words(taken[1])) | {"interpreter"} == members


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A keeper of the test's own."""
    with House(tmp_path / "state") as opened:
        yield opened


@pytest.mark.promise("S4.8")
def test_the_program_of_the_page_runs(house: House) -> None:
    """It makes engine and registry itself."""
    (program,) = blocks(_TEXT, "python")
    names: dict[str, Any] = {}
    exec(compile(program, "docs/rest.md", "exec"), names)  # noqa: S102 -- every example is executed
    names["main"](str(house.state_dir))
