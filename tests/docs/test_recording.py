"""docs/images/survive.svg shows what examples/survive.py prints today.

The same script draws it of a run that takes place now.
"""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from scripts.recording import COLOURS, INTO, LONGEST_GAP_S, draw, lines_of, recorded
from tests.docs.pages import page

_LARGEST_BYTES = 60_000  # a README that loads slowly is left before it is read
_ELEMENT = "{http://www.w3.org/2000/svg}"
# Pids, ports and cursors differ from run to run.
_VARYING = re.compile(r"(?<=pid )\d+|(?<=port )\d+|(?<=cursor )[1-9]\d*\.\d+")


def _lines(picture: str) -> list[str]:
    rows = ET.fromstring(picture).iter(f"{_ELEMENT}text")  # noqa: S314 -- drawn by our own script
    return [_VARYING.sub("N", "".join(row.itertext())) for row in rows]


def _said(lines: list[str]) -> list[str]:
    """Return what the demonstration says itself.

    Which of the command's lines was on its way differs from run to run.
    """
    return [line for line in lines if not line.startswith("line ")]


@pytest.mark.thorough
def test_the_picture_shows_what_the_program_prints_today(tmp_path: Path) -> None:
    committed, now = _lines(INTO.read_text(encoding="utf-8")), _lines(recorded())
    assert committed[0] == "$ python examples/survive.py"
    assert _said(committed) == _said(now)
    assert sorted(committed) == sorted(now)
    assert any("ended by SIGKILL" in line for line in committed)
    assert committed[-1].startswith("All 9 lines came exactly once")


def test_the_picture_is_light_and_loads_nothing() -> None:
    picture = INTO.read_text(encoding="utf-8")
    assert len(picture.encode()) < _LARGEST_BYTES
    assert re.findall(r"<script|<image|@import|url\(|\b(?:href|src)=", picture) == []
    assert "prefers-reduced-motion" in picture
    assert "![" in page("README.md").partition("docs/images/survive.svg")[0]


def test_a_line_appears_when_it_came_and_a_long_pause_is_cut() -> None:
    lines = lines_of([(0.5, b"one\r\n\x1b[31mtwo\x1b[0m <three>\r\n"), (900.0, b"four\r\n")])
    assert [line.text for line in lines] == ["one", "two <three>", "four"]
    assert [line.at_s for line in lines] == [0.5, 0.5, 0.5 + LONGEST_GAP_S]
    assert lines[1].pieces == (("red", "two"), ("default", " <three>"))
    assert {colour for line in lines for colour, _ in line.pieces} <= set(COLOURS)
    picture = draw(lines, command="cat <file>")
    assert _lines(picture) == ["$ cat <file>", "one", "two <three>", "four"]
    # At the beginning of each round all but the typed command is hidden; then it stays to the round's end.
    assert len(re.findall(r"@keyframes r\d+\{0%\{opacity:0\}[\d.]+%\{opacity:1\}\}", picture)) == len(lines)
