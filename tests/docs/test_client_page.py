"""docs/client.md says what the client does: its programs run, its tables name everything that is there."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from anyio import to_thread

import outlive.client
from outlive.client import Client, OutliveError, Process, StartOptions
from tests.docs.consoles import Console
from tests.docs.pages import blocks, page, section, table_rows, words
from tests.support.server import OutliveServer

_TEXT = page("docs/client.md")
_EXPECTED = [
    "stdout b'1\\n2\\n3\\n' 6.0\n4\n",
    "one 0\ntwo 0\n",
    "started running\nended exited\n",
]


@pytest.mark.parametrize("number", range(len(_EXPECTED)))
async def test_every_program_shown_runs(server: OutliveServer, tmp_path: Path, number: int) -> None:
    programs = blocks(_TEXT, "python")
    assert len(programs) == len(_EXPECTED)
    program = tmp_path / "program.py"
    program.write_text(programs[number])
    ran = await to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-W", "error", str(program)],
            env=Console(tmp_path).environment | {"OUTLIVE_STATE_DIR": str(server.state_dir)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == _EXPECTED[number]


def _named(heading: str, column: str) -> list[str]:
    rows = table_rows(section(_TEXT, heading), column)
    return [word for row in rows for word in words(row[0])]


def test_every_option_of_a_start_is_told() -> None:
    assert sorted(_named("## Starting", "option")) == sorted(StartOptions.__annotations__)


@pytest.mark.parametrize(
    ("heading", "column", "kind"),
    [("## Finding the server", "client", Client), ("## Controlling", "process", Process)],
)
def test_every_method_is_told_with_its_parameters(heading: str, column: str, kind: type) -> None:
    told = dict(text.rstrip(")").split("(") for text in _named(heading, column))
    methods = {
        name: ", ".join(
            f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
            for parameter in list(inspect.signature(member).parameters.values())[1:]
        )
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    assert told == methods


def test_every_error_is_told() -> None:
    exported = (getattr(outlive.client, name) for name in outlive.client.__all__)
    families = {
        kind.__name__ for kind in exported if isinstance(kind, type) and issubclass(kind, OutliveError)
    } - {"OutliveError"}
    assert {*_named("## Errors", "class")} == families
