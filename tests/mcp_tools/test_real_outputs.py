"""What `run` answers for real programs: small, with what matters in it, and every byte it leaves out can be
read back.
"""

import os
import re
from pathlib import Path

import pytest

from outlive.core.cursor import BEGINNING, Cursor
from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.mcp.tools import Caller, Toolbox
from tests.docs.pages import page, section, table_rows, words
from tests.mcp_tools.calling import a_caller, answer
from tests.mcp_tools.real_outputs import SAMPLES, Sample

pytestmark = pytest.mark.thorough

_MARK = re.compile(
    r'^\[\.\.\. \d+ bytes omitted: read\(id="p1", cursor="([^-"]+)-([^"]+)"\) \.\.\.\]$', re.MULTILINE
)
_COLLAPSED = re.compile(r"^\[\.\.\. \d+ (?:similar|equal) lines: .* \.\.\.\]$", re.MULTILINE)
# What an agent must see of each, whatever is left out.
_TELLS = {
    "git clone": ("Cloning into ", "Receiving objects: 100% (3002/3002)"),
    "pip install": ("25.2/25.2 MB", "Successfully installed small-thing-1.0"),
    "pytest -v": ("collected 400 items", "test_it_forgets_the_header_at_once FAILED", "1 failed, 399 passed"),
    "ls -laR": ("total ", "splits-044.txt"),
    "spinner": ("+ resolving done\n+ fetching done\n+ linking done",),
}


def _bounds() -> dict[str, tuple[int, int]]:
    """Return the documented table: the least raw bytes and the most bytes of the answer, by program."""
    rows = table_rows(section(page("docs/mcp.md"), "### What it saves"), "program")
    return {words(row[0])[0]: (int(row[1]), int(row[2])) for row in rows}


@pytest.fixture(params=SAMPLES, ids=[sample.name for sample in SAMPLES])
def sample(request: pytest.FixtureRequest) -> Sample:
    """Each program; one that this machine lacks is skipped, where .ci/run does not ask for it."""
    found: Sample = request.param
    if found.is_missing:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), f"{found.needs} is missing"
        pytest.skip(f"{found.needs} is not installed")
    return found


@pytest.mark.promise("S4.13.plain", "S4.13.answers")
async def test_an_answer_costs_little_tells_the_result_and_leaves_nothing_unreachable(
    toolbox: Toolbox, engine: Engine, sample: Sample, tmp_path: Path
) -> None:
    caller = a_caller()
    with sample.prepared(tmp_path) as line:
        outcome = await answer(toolbox, "run", caller, {"command": line, "pty": sample.pty})
    (record,) = await engine.queries.list(ProcessFilter(principal=caller.principal))
    process = await engine.queries.find(record.process_id)
    raw = _logged(process, BEGINNING, record.cursor)
    cost = len(outcome.text.encode())
    print(f"{sample.name}: {len(raw)} bytes of output, {cost} bytes of answer")
    least, most = _bounds()[sample.name]
    assert len(raw) >= least
    assert cost <= most
    for told in _TELLS[sample.name]:
        assert told in outcome.text

    assert await _read_back(toolbox, caller, process, BEGINNING, record.cursor) == raw
    for mark in _MARK.finditer(outcome.text):
        start, end = Cursor.parse(mark[1]), Cursor.parse(mark[2])
        assert await _read_back(toolbox, caller, process, start, end) == _logged(process, start, end)


def test_every_program_is_in_the_documented_table() -> None:
    """S4.13.answers."""
    assert list(_bounds()) == [sample.name for sample in SAMPLES] == list(_TELLS)


def _logged(process: Process, start: Cursor, end: Cursor) -> bytes:
    """Return what the log has on stdout: all samples write there alone."""
    assert start.stderr == end.stderr == 0
    data = b""
    while start.stdout + len(data) < end.stdout:
        data += process.log.pread(
            0, min(262144, end.stdout - start.stdout - len(data)), start.stdout + len(data)
        )
    return data


async def _read_back(toolbox: Toolbox, caller: Caller, process: Process, start: Cursor, end: Cursor) -> bytes:
    """Read [start, end) as an agent would: raw, and every omitted range by the call that its mark names."""
    asked = {"id": process.process_id, "cursor": f"{start}-{end}", "raw": True, "budget": 50_000}
    outcome = await answer(toolbox, "read", caller, asked)
    head, _, text = outcome.text.partition("\n")
    assert re.fullmatch(r"\[(p1 )?exit [01]\]", head), head
    assert not _COLLAPSED.search(text)
    mark = _MARK.search(text)
    if mark is None:
        data = text.encode()
    else:
        begin, resume = Cursor.parse(mark[1]), Cursor.parse(mark[2])
        assert begin < resume
        between = await _read_back(toolbox, caller, process, begin, resume)
        # The newline before the mark is its own where the mark stands in the middle of a line.
        before = text[: mark.start()].encode()[: begin.stdout - start.stdout]
        data = before + between + text[mark.end() + 1 :].encode()
    # The newline that ends the last line is not shown; the range tells whether it was there.
    return data + b"\n" if len(data) + 1 == end.stdout - start.stdout else data
