"""What is written of a start that asks for notices: without a wait for the disk, and whole."""

import asyncio
import os
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.extensions.observe.notices.owed_notices import OwedNotices
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House


async def test_a_start_that_is_cancelled_while_its_notice_is_noted_takes_no_place(own_house: House) -> None:
    """Else it would count among the processes that may live, for ever, as one that is starting."""
    async with an_engine(
        own_house.state_dir,
        notices=OwedNotices(Layout(str(own_house.state_dir)), frozenset({"end"})),
        options=Settings(max_processes=1),
    ) as engine:
        start = asyncio.create_task(engine.starts.start(Command(line="sleep 300", notify=("end",)), owner=ME))
        async with asyncio.timeout(10):
            while not (live := list(engine.queries.live())):  # noqa: ASYNC110 -- there is no event for it
                await asyncio.sleep(0)
            # The note is a file, written in a thread: nothing was asked of the keeper yet.
            start.cancel()
            await asyncio.gather(start, return_exceptions=True)
            assert start.cancelled()
            assert live[0].status.state is State.FAILED_TO_START
            assert list(engine.queries.live()) == []
            process = await engine.starts.start(Command(line="true", notify=("end",)), owner=ME)
            await engine.queries.wait(process)
        assert process.record.exit_code == 0


def test_a_note_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start waits for the note: after a power cut a notice may be missing, as the last output may be."""
    monkeypatch.delattr(os, "fsync")
    monkeypatch.delattr(os, "fdatasync")
    layout = Layout(str(tmp_path))
    process_id = ProcessId("01m8arfxkh5b83tznvhe3j2pyk")
    OwedNotices(layout, frozenset()).put(process_id, ["end"])
    assert os.listdir(layout.notices) == [process_id]
