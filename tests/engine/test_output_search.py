"""The search through all output in slices: two threads find what one would, in the same order, and every
slice says how far it came.
"""

import asyncio

import pytest

from outlive.core.cursor import SearchPlace
from outlive.core.process import Owner
from outlive.engine import Engine, Process, ProcessFilter, output_search
from outlive.engine.output_search import SearchSlice, Wanted
from outlive.protocols.output.line_query import LineQuery
from tests.engine.engines import an_engine, run
from tests.keeper.house import House

pytestmark = pytest.mark.promise("R.search")

_PRINCIPAL = "searcher"


async def _slices(
    engine: Engine, *, limit: int, each: int | None = None, text: str = "hit"
) -> list[SearchSlice]:
    wanted = Wanted(
        query=LineQuery(text),
        processes=ProcessFilter(principal=_PRINCIPAL),
        most_each=each,
    )
    found: list[SearchSlice] = []
    begin: SearchPlace | None = None
    while True:
        found.append(await engine.search.find(wanted, begin=begin, limit=limit, within_s=0.01))
        if (begin := found[-1].next) is None:
            return found


def _lines(slices: list[SearchSlice]) -> list[tuple[str, int, bytes]]:
    return [(hit.record.process_id, hit.line.stream, hit.line.data) for one in slices for hit in one.hits]


async def _written(engine: Engine) -> tuple[list[Process], int]:
    """Run 24 processes with up to 50 hits each between other lines, some of 3 MB.

    Return them and how much they wrote.
    """
    owner = Owner(principal=_PRINCIPAL)
    processes = []
    for number in range(24):
        size = 400_000 if number % 8 == 3 else 300
        line = (
            f"seq 1000000 {1000000 + size}; seq -f 'hit {number}-%g' {number * 2}; echo hit err {number} >&2"
        )
        processes.append(await run(engine, line, owner=owner))
    for process in processes:
        await engine.queries.wait(process, until="closed")
    return processes, sum(one.log.size(0) + one.log.size(1) for one in processes)


@pytest.mark.thorough
async def test_two_threads_find_what_one_finds_in_the_same_order(
    own_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with an_engine(own_house.state_dir) as engine:
        processes, size = await _written(engine)
        expected = [
            (process.process_id, stream, line)
            for number, process in reversed([*enumerate(processes)])
            for stream, lines in (
                (0, [f"hit {number}-{one}" for one in range(1, number * 2 + 1)]),
                (1, [f"hit err {number}"]),
            )
            for line in map(str.encode, lines)
        ]
        # Small parts, so that both have something to do all the time.
        monkeypatch.setattr(output_search, "_PART_BYTES", 100_000)
        for processors in (1, 2):
            monkeypatch.setattr(output_search, "_PROCESSORS", processors)
            for limit in (1000, 7, 1):
                slices = await _slices(engine, limit=limit)
                assert _lines(slices) == expected, (processors, limit)
                assert all(len(one.hits) <= limit for one in slices)
                assert sum(one.processes for one in slices) == len(processes)
                # Whenever it is stopped, what was searched and what is left are everything.
                searched = 0
                for one in slices:
                    searched += one.searched_bytes
                    assert searched + one.left_bytes == size
                assert slices[-1].left_bytes == 0
            few = _lines(await _slices(engine, limit=5, each=3))
            counts = [sum(one == process.process_id for one, _, _ in few) for process in processes]
            assert counts == [min(3, number * 2 + 1) for number in range(24)]


async def test_two_searches_at_once_find_the_same(own_house: House) -> None:
    """Then each has one thread."""
    async with an_engine(own_house.state_dir) as engine:
        await _written(engine)
        one, other = await asyncio.gather(_slices(engine, limit=50), _slices(engine, limit=50))
        assert _lines(one) == _lines(other)
        assert len(_lines(one)) == sum(number * 2 + 1 for number in range(24))
