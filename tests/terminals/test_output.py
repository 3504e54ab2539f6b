"""What the log of a terminal holds: secrets that are hidden, a middle that was released, more than one look
can read.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.terminal import TerminalNote
from outlive.engine import Engine
from outlive.store.folder import WindowSize, note_size, read_sizes
from tests.engine.engines import ME, an_engine, settled
from tests.keeper.house import House
from tests.terminals.shells import Desk, an_environment

_TOKEN = "ghp_" + "a1B2" * 9
_HIDDEN = "ghp_" + "*" * 36


@pytest.mark.promise("S3.8")
async def test_a_secret_is_hidden_in_every_form(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, f"echo before {_TOKEN} behind; printf %s {_TOKEN}")
    assert gave.output == f"before {_HIDDEN} behind\n{_HIDDEN}"
    for form in ("raw", "clean", "screen"):
        assert _TOKEN not in (await desk.read(terminal, form)).text
    assert (await desk.read(terminal)).text.count(_HIDDEN) >= 2


@pytest.fixture
async def small(shared_house: House, tmp_path: Path) -> AsyncIterator[Desk]:
    async with an_engine(
        shared_house.state_dir,
        environment=an_environment(tmp_path),
        cwd=str(tmp_path),
        options=Settings(output_limit_bytes=1024 * 1024),
    ) as opened:
        desk = Desk(opened)
        yield desk
        await desk.close_all()


@pytest.mark.thorough
async def test_a_log_without_its_middle_is_read_and_the_terminal_goes_on(small: Desk) -> None:
    terminal = await small.open()
    begin = (await small.read(terminal)).cursor
    gave = await small.run(terminal, "seq 1 3000000; (exit 3)", wait_s=60)  # 23 MB
    assert (gave.exit_code, gave.is_complete) == (3, True)
    assert gave.output.startswith("1\n2\n3\n")
    assert gave.output.endswith("\n2999999\n3000000\n")
    assert "bytes omitted" in gave.output
    cursor, has_gap, texts = begin, False, []
    while True:
        page = await small.read(terminal, cursor=cursor, budget=100_000)
        texts.append(page.text)
        has_gap = has_gap or page.has_gap
        if not page.has_more:
            break
        assert page.cursor != cursor
        cursor = page.cursor
    assert has_gap
    assert "\n3000000\n" in texts[-1]
    assert (await small.run(terminal, "echo on")).output == "on\n"
    assert (await small.read(terminal, "screen")).text.rstrip().endswith("$" if "$" in texts[-1] else "#")


async def test_a_line_that_is_longer_than_any_budget_is_read_in_pieces(desk: Desk) -> None:
    terminal = await desk.open()
    begin = (await desk.read(terminal)).cursor
    await desk.run(terminal, "printf 'x%.0s' $(seq 1 5000); echo END")
    for form in ("raw", "clean"):
        cursor, text = begin, ""
        for _ in range(1000):
            page = await desk.read(terminal, form, cursor=cursor, budget=100)
            assert len(page.text) <= 100
            text += page.text
            if not page.has_more:
                break
            assert page.cursor != cursor
            cursor = page.cursor
        assert text.replace("\r", "").count("x") >= 5000
        assert "END" in text


async def test_many_lines_of_any_bytes_are_text(desk: Desk) -> None:
    terminal = await desk.open()
    gave = await desk.run(terminal, r"printf 'a\377b\303\251\n\0c\n'")
    assert gave.output == "a\ufffdbé\nc\n"


async def test_a_terminal_is_one_after_its_record_was_kept_and_loaded(engine: Engine) -> None:
    note = TerminalNote(name="one", key="0123456789abcdef", shell="sh")  # noqa: S604 -- a name
    process = await engine.starts.start(
        Command(argv=("true",), stdio="pty", stdin="pipe", detached=True, terminal=note), owner=ME
    )
    async with asyncio.timeout(10):
        await engine.queries.wait(process, until="closed")
    assert process.base.terminal == note
    await settled(engine, process)
    loaded = await engine.queries.find(process.process_id)
    assert loaded is not process
    assert loaded.base.terminal == note


def test_sizes_are_kept_in_order_and_not_for_ever(tmp_path: Path) -> None:
    assert read_sizes(str(tmp_path)) == []
    sizes = [WindowSize(offset, 24, offset % 200 + 1) for offset in range(20_000)]
    for size in sizes:
        note_size(str(tmp_path), size)
    kept = read_sizes(str(tmp_path))
    assert kept == sizes[-len(kept) :]
    assert 2_000 < len(kept) < 20_000
    with (tmp_path / "sizes").open("ab") as file:
        file.write(b"12 24 8")  # cut by a crash
    assert read_sizes(str(tmp_path)) == kept
    with pytest.raises(FileNotFoundError):
        note_size(str(tmp_path / "gone"), sizes[0])
