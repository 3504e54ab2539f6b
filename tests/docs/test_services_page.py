"""docs/services.md: its file is read, its commands answer what it shows, its tables are the code's."""

from pathlib import Path

import msgspec
import pytest

from outlive.client import Client
from outlive.extensions.services.declaration import Backoff, ReadyWhen, ServiceRequest
from outlive.extensions.services.services_file import FILE_NAME, parse_services
from tests.docs.consoles import Console, commands
from tests.docs.pages import ROOT, blocks, page, section, table_rows, words
from tests.faults.returning import stop_server
from tests.support.processes import wait_state_folder_empty
from tests.support.server import OutliveServer, run_outlive

_PAGE = page("docs/services.md")


@pytest.mark.promise("V.cli", "V.file")
def test_the_commands_of_the_page_answer_what_it_shows(tmp_path: Path) -> None:
    project, state_dir = tmp_path / "shop", tmp_path / "state"
    project.mkdir()
    (text,) = blocks(_PAGE, "toml")
    (project / "outlive.processes.toml").write_text(text)
    console = Console(project)
    try:
        shown = commands(_PAGE)
        assert [command.split()[1] for command, _ in shown] == ["up", "logs", "restart", "down"]
        for command, answer in shown:
            done = console.run(command, OUTLIVE_STATE_DIR=str(state_dir), OUTLIVE_JSONRPC_PORT="0")
            assert done.returncode == 0, done.stderr
            # Which of two services ends first is theirs to decide.
            assert sorted(done.stdout.splitlines()) == sorted(answer.splitlines()), command
    finally:
        stop_server(state_dir)
        run_outlive("keeper", "stop", "--kill", state_dir=state_dir)
        assert wait_state_folder_empty(state_dir) == {}


def test_every_member_of_a_service_is_told() -> None:
    rows = list(table_rows(section(_PAGE, "## What a service may have"), "member"))
    assert [words(row[0])[0] for row in rows] == list(ServiceRequest.__struct_fields__)
    told = {words(row[0])[0]: row for row in rows}
    ways = {word.partition(" ")[0] for word in words(told["ready"][2]) if " = " in word}
    assert ways == set(ReadyWhen.__struct_fields__)
    backoff = Backoff()
    assert told["backoff"][1] == f'`{{first = "{backoff.first:g}s", most = "{backoff.most:g}s"}}`'
    for field in msgspec.structs.fields(ServiceRequest):
        if field.name == "restart":
            assert told["restart"][1] == f'`"{field.default}"`'


def test_the_file_of_the_page_is_read_as_it_says() -> None:
    (text,) = blocks(_PAGE, "toml")
    services = parse_services(text, folder="/srv/shop")
    assert list(services) == ["db", "move", "web"]


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = blocks(_PAGE, "python")
    with OutliveServer(tmp_path / "state") as server:
        monkeypatch.setenv("OUTLIVE_STATE_DIR", str(server.state_dir))
        here = text.replace("/srv/shop", str(tmp_path)).replace("exec sleep 600", "echo up; exec sleep 600")
        exec(compile(here, "docs/services.md", "exec"), {})  # noqa: S102 -- the page's own program
        with Client(server.state_dir, start_server=False) as client:
            client.services.down(str(tmp_path), grace_s=0)


def test_the_example_declares_what_it_says() -> None:
    folder = ROOT / "examples" / "shop"
    services = parse_services((folder / FILE_NAME).read_text(), folder=str(folder))
    assert list(services) == ["store", "tables", "web", "clock"]
    assert services["web"].after == ("store", "tables")
