"""docs/keeper.md works as printed: its commands, its files, its numbers."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from anyio import to_thread

from outlive.config import all_options
from outlive.core.layout import Layout
from outlive.keeper.supervisor import lifecycle as presence
from outlive.kernel.state_files import read_end
from tests.docs.consoles import Console, commands
from tests.docs.pages import page, section, table_rows, words
from tests.support.processes import poll_until
from tests.support.rpc import connect
from tests.support.server import OutliveServer

_TEXT = page("docs/keeper.md")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OutliveServer]:
    with OutliveServer(tmp_path / "state") as server:
        yield server


def _pattern(shown: str) -> str:
    """Return what an answer like the one shown looks like: numbers and spaces may differ."""
    return r"\s+".join(re.sub(r"\d+", r"\\d+", re.escape(word)) for word in shown.split())


async def test_the_commands_of_the_page_say_what_it_shows(own: OutliveServer, tmp_path: Path) -> None:
    """While one detached command lives; the last one ends it, the one before the server."""
    async with connect(own.url) as client:
        process_id = (await client.execute("sleep 300", detach=True))["process_id"]
    console, state = Console(tmp_path), str(own.state_dir)
    shown = commands(_TEXT)
    assert len(shown) == 6
    for command, answer in shown:
        if "keeper stop" in command:
            refused = await to_thread.run_sync(
                lambda: console.run("outlive keeper stop", OUTLIVE_STATE_DIR=state)
            )
            assert refused.returncode == 1
            assert "--kill" in refused.stderr
        ran = await to_thread.run_sync(lambda text: console.run(text, OUTLIVE_STATE_DIR=state), command)
        said = ran.stdout + ran.stderr
        if command == "outlive doctor":  # what it finds is this machine's matter
            assert "outlive runs here" in said
            continue
        assert ran.returncode == 0, said
        assert re.search(_pattern(answer), said), f"{command}:\n{said}"
    assert await to_thread.run_sync(read_end, str(own.state_dir / "processes" / process_id)) is not None


async def test_every_file_of_the_state_folder_is_told(own: OutliveServer) -> None:
    async with connect(own.url) as client:
        await client.run("echo hello")
    await poll_until((own.state_dir / "reserve").exists)  # what comes last, a second after the keeper's start
    rows = table_rows(section(_TEXT, "## The state folder"), "file")
    told = {name for row in rows for name in words(row[0])}
    layout = Layout("")
    paths = [getattr(layout, name) for name in dir(Layout) if isinstance(getattr(Layout, name), property)]
    assert told >= {path.removeprefix("/") for path in paths}
    # But for SQLite's own; what is about to take the place of its older self has another name for a moment
    # only.
    untold: set[str] = set()

    def is_all_told() -> bool:
        nonlocal untold
        untold = {name for name in os.listdir(own.state_dir) if not name.startswith("registry.db-")} - told
        return not untold

    with suppress(TimeoutError):
        await poll_until(is_all_told)
    assert untold == set()


def test_flags_and_numbers_of_the_page_are_real() -> None:
    flags = {option.flag for option in all_options()} | {"--json", "--kill", "--dry-run", "--system"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", _TEXT)) <= flags
    assert presence._IDLE_S == 10
    assert "connected for 10 s" in _TEXT
