"""Where a viewer begins in a real log: at most 256 KiB before the end, behind what was released, at a line's
beginning.
"""

from pathlib import Path

import pytest

from outlive.core.cursor import BEGINNING
from outlive.frontends.terminal.terminal_output import HISTORY_BYTES, newest_history
from tests.frontends.jsonrpc.following import WrittenProcess

_LINES = b"".join(b"\x1b[3%dmline %06d\x1b[0m\r\n" % (number % 8, number) for number in range(40_000))


@pytest.mark.promise("T.begin")
@pytest.mark.parametrize(
    "released", [None, (10, 200_000), (10, len(_LINES) - 1000), (len(_LINES) - 1000, len(_LINES) - 500)]
)
def test_history_begins_at_a_line(tmp_path: Path, released: tuple[int, int] | None) -> None:
    written = WrittenProcess(tmp_path, stdio="pty")
    written.write(_LINES)
    if released is not None:
        written.release(*released)
    begin = newest_history(written.process.log).stdout
    wanted = len(_LINES) - HISTORY_BYTES
    assert _LINES[begin - 1 : begin] == b"\n"
    behind = wanted if released is None or not released[0] < wanted < released[1] else released[1]
    assert behind <= begin < behind + 100


def test_without_output_it_is_the_beginning(tmp_path: Path) -> None:
    assert newest_history(WrittenProcess(tmp_path, stdio="pty").process.log) == BEGINNING
