"""Pages of real output: errors in the middle, binary data, patterns, and sizes that must cost no more than
their ends.
"""

import gzip
import random
import re
import resource
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import pytest

from outlive.core.command import Command
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.process import Owner
from outlive.engine import Engine, Process
from outlive.frontends.mcp.tools.pages import read_page, read_tail
from outlive.frontends.mcp.tools.search import read_matches
from outlive.protocols.output.body import (
    FAILURE_BUDGET,
    RUNNING_BUDGET,
    SUCCESS_BUDGET,
    Source,
    default_budget,
)
from outlive.store.output_log import OutputLog

Run = Callable[[str], Awaitable[Process]]
T = TypeVar("T")

_P1 = Source('read(id="p1"')


@pytest.fixture
def run(engine: Engine) -> Run:
    """Run a line to its end."""

    async def ended(line: str) -> Process:
        process = await engine.starts.start(
            Command(line=line), owner=Owner(principal="pages", connection_id="pages")
        )
        await engine.queries.wait(process)
        return process

    return ended


@pytest.mark.thorough
@pytest.mark.promise("S4.13.errors")
async def test_an_error_in_the_middle_of_a_flood_is_shown_with_its_neighbours(run: Run) -> None:
    process = await run(
        "seq 300000; echo 'a.c:3:5: error: no'; seq 300000; echo 'make: *** [all] Error 1' >&2; exit 2"
    )
    page = await read_page(process.log, BEGINNING)
    budget = default_budget(process.record)
    text = page.text(_P1, budget=budget)
    assert "\n299999\n300000\na.c:3:5: error: no\n1\n2\n" in text
    assert text.startswith("1\n2\n3\n")
    assert "make: *** [all] Error 1" in text
    assert len(text) < budget + 400


@pytest.mark.thorough
@pytest.mark.promise("S4.13.errors")
async def test_what_was_not_searched_for_errors_is_said_with_the_call_that_finds_them(run: Run) -> None:
    process = await run(
        "yes quiet | head -c 19999998; echo 'error: in the middle'; yes quiet | head -c 19999998"
    )
    text = (await read_page(process.log, BEGINNING)).text(_P1, budget=1000)
    call = re.search(
        r'\[not searched for errors: read\(id="p1", cursor="([\d.]+)-([\d.]+)", grep="(.*)"\)\]', text
    )
    assert call is not None
    start, end = Cursor.parse(call[1]), Cursor.parse(call[2])
    page = await read_matches(process.log, start, call[3], context=0, most=500, end=end)
    assert page.text(_P1, budget=500) == "error: in the middle"


async def test_a_page_shows_whole_lines_where_it_begins_behind_a_hole(run: Run) -> None:
    """S4.13.answers."""
    log = (await run("seq 100001 150000")).log
    for page in (await read_page(log, BEGINNING), await read_tail(log, 1_000_000)):
        assert {len(line.text) for line in page.excerpt.lines} == {len("100001")}


async def test_budgets_follow_the_end(run: Run, engine: Engine) -> None:
    """S4.13.answers."""
    assert default_budget((await run("true")).record) == SUCCESS_BUDGET
    assert default_budget((await run("exit 3")).record) == FAILURE_BUDGET
    assert default_budget((await run("kill -9 $$")).record) == FAILURE_BUDGET
    running = await engine.starts.start(
        Command(line="sleep 100"), owner=Owner(principal="pages", connection_id="pages")
    )
    assert default_budget(running.record) == RUNNING_BUDGET
    await engine.controls.cancel(running)


@pytest.mark.promise("S4.13.binary")
async def test_binary_data_is_said_and_raw_gives_its_bytes(run: Run, tmp_path: Path) -> None:
    data = gzip.compress(random.Random(3).randbytes(3000))
    (tmp_path / "data").write_bytes(data)
    process = await run(f"echo before; cat {tmp_path}/data; printf '\\nafter\\n'")
    text = (await read_page(process.log, BEGINNING)).text(_P1, budget=1000)
    first, mark, last = text.split("\n")
    assert (first, last) == ("before", "after")
    said = re.fullmatch(
        (
            r"\[binary: ([\d,]+) bytes, looks like gzip, first bytes 1f 8b 08 00; redirect it to a file, or "
            r'see it as hex: cursor="([\d.]+)-([\d.]+)" raw=true\]'
        ),
        mark,
    )
    assert said is not None
    page = await read_page(process.log, Cursor.parse(said[2]), Cursor.parse(said[3]), raw=True)
    header, *digits = page.text(_P1, budget=50_000).split("\n")
    assert header == "[binary data as hexadecimal digits]"
    assert bytes.fromhex("".join(digits)) == data + b"\n"


@pytest.mark.promise("S4.13.binary")
async def test_megabytes_of_binary_data_are_one_line_unless_text_is_among_them(
    run: Run, tmp_path: Path
) -> None:
    process = await run(f"cat {_noise(tmp_path, 2_000_000)}")
    text = (await read_page(process.log, BEGINNING)).text(_P1, budget=1000)
    assert re.fullmatch(r"\[binary: 2,000,000 bytes[^\n]*\]", text)
    process = await run("; seq 300000; ".join([f"cat {_noise(tmp_path, 300_000)}"] * 2))
    text = (await read_page(process.log, BEGINNING)).text(_P1, budget=1000)
    assert len(re.findall(r"\[binary: ", text)) == 2


def _noise(folder: Path, size: int) -> Path:
    """Return a file of random bytes, the same in each run: of real randomness a line now and then reads as
    text.
    """
    path = folder / f"noise-{size}"
    path.write_bytes(random.Random(size).randbytes(size))
    return path


@pytest.mark.thorough
@pytest.mark.promise("S4.13.grep")
async def test_a_search_shows_the_first_and_the_last_of_many_matches_and_counts_all(run: Run) -> None:
    process = await run("seq 100000")
    page = await read_matches(process.log, BEGINNING, "7$", context=0, most=300)
    lines = page.text(_P1, budget=300).split("\n")
    assert lines[:3] == ["7", "17", "27"]
    assert lines[-1] == "99997"
    (mark,) = [line for line in lines if line.startswith("[")]
    found = re.fullmatch(
        r'\[10000 lines match; (\d+) not shown: read\(id="p1", cursor="([\d.]+)-([\d.]+)", grep="7\$"\)\]',
        mark,
    )
    assert found is not None
    assert int(found[1]) == 10_000 - len(lines) + 1
    rest = await read_matches(
        process.log, Cursor.parse(found[2]), "7$", context=0, most=300, end=Cursor.parse(found[3])
    )
    assert rest.matches is not None
    assert rest.matches.count == int(found[1])


@pytest.mark.thorough
@pytest.mark.promise("S4.13.grep")
async def test_lines_around_a_match_are_shown_across_what_was_skipped(run: Run) -> None:
    """Each of the neighbours may lie in another turn of 256 KiB."""
    process = await run("seq 200000; echo; printf '\\033[31mneedle\\033[0m\\n'; seq 200000")
    for number in (44_444, 81_234, 199_999):
        page = await read_matches(process.log, BEGINNING, f"^{number}$", context=2, most=500)
        wanted = [str(one) for one in range(number - 2, number + 3)]
        wanted[-1] = wanted[-1] if number != 199_999 else ""
        assert page.text(_P1, budget=500).split("\n")[:5] == wanted
    page = await read_matches(process.log, BEGINNING, "^needle$", context=1, most=500)
    assert page.text(_P1, budget=500) == "\nneedle\n1"


@pytest.mark.promise("S4.13.grep")
async def test_a_pattern_that_would_backtrack_for_ever_searches_ten_megabytes(run: Run) -> None:
    process = await run("head -c 10000000 /dev/zero | tr '\\0' a; echo b")
    for pattern in ("(a+)+$", "(a|aa)*c", "(x+x+)+y"):
        begin = time.process_time()
        page = await read_matches(process.log, BEGINNING, pattern, context=0, most=500)
        assert page.cursor == Cursor(10_000_002, 0)
        assert time.process_time() - begin < 10
    with pytest.raises(InvalidRequest):
        await read_matches(process.log, BEGINNING, "a" * 10_240, context=0, most=500)
    page = await read_matches(process.log, BEGINNING, "(?=b)", context=0, most=500)
    assert page.text(_P1, budget=500).startswith("[grep is no regular expression")


@pytest.mark.thorough
@pytest.mark.promise("S4.13.answers")
@pytest.mark.parametrize(
    "line",
    [
        "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end",
        "yes 'some line of output' | head -c 200000000; echo end",
        "head -c 50000000 /dev/zero | sed 's/\\x00/\\xc3\\xa9/g'; echo; echo end",
    ],
    ids=["one line of 50 MB", "200 MB", "one line of wide characters"],
)
async def test_a_flood_costs_what_its_ends_cost(run: Run, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await run(line)
    read: list[int] = []
    look = OutputLog.look

    def counted(self: OutputLog, stream: int, size: int, offset: int) -> tuple[bytes, object]:
        data, hidden = look(self, stream, size, offset)
        read.append(len(data))
        return data, hidden

    monkeypatch.setattr(OutputLog, "look", counted)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = (await read_page(process.log, BEGINNING)).text(_P1, budget=2500)
    assert sum(read) < 12 * 1024 * 1024
    assert len(read) < 150
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB
    assert len(text) < 2500 + 300
    assert text.endswith("end")
    assert text[:10] in {"x" * 10, "some line ", "é" * 10}
    tail = (await read_tail(process.log, 1)).text(_P1, budget=500)
    assert tail.endswith("end")


class _Steps(Generic[T]):
    """Awaits something, and measures what each of its steps takes of the loop's thread, in seconds of
    processor time.
    """

    def __init__(self, awaited: Coroutine[Any, Any, T]) -> None:
        self._awaited = awaited
        self.longest_s = 0.0

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaited.__await__()
        while True:
            begun_s = time.thread_time()
            try:
                waits_for = next(steps)
            except StopIteration as end:
                return cast("T", end.value)
            finally:
                self.longest_s = max(self.longest_s, time.thread_time() - begun_s)
            yield waits_for


@pytest.mark.thorough
@pytest.mark.promise("S4.13.answers")
async def test_the_loop_goes_on_while_a_page_of_very_many_lines_is_made(run: Run) -> None:
    """256 KiB may be 128,000 lines: half a second of work, which every other client would wait for."""
    process = await run("yes 'a\nb\nb\na\nc' | head -c 262144; yes error: x | head -c 262144 >&2")
    for end in (None, Cursor(131_072, 0)):  # with a hole that is looked through, and without
        reading = _Steps(read_page(process.log, BEGINNING, end))
        page = await reading
        showing = _Steps(page.shown(_P1, budget=SUCCESS_BUDGET))
        await showing
        assert max(reading.longest_s, showing.longest_s) < 0.05
    searching = _Steps(read_matches(process.log, BEGINNING, "b", context=2, most=SUCCESS_BUDGET))
    await searching
    assert searching.longest_s < 0.05
