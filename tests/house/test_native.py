"""The C programs keep the house's shape: no ring between files, rooms that depend downwards, files of one
sitting.
"""

import re
from pathlib import Path

import pytest

from scripts.measure.house import native_rings
from tests.house.sources import ROOT

NATIVE = ROOT / "src" / "outlive" / "native"
FILE_LINES = 400
LINE_LENGTH = 125
FUNCTION_LINES = 60
# What each room may include.
ROOMS = {
    "common": {"common"},
    "shim": {"shim", "common"},
    "runner": {"runner", "common"},
    "filter": {"filter", "common"},
    "flow": {"flow"},
}
_FILES = sorted(NATIVE.rglob("*.[ch]"))
_INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)


def _name(path: Path) -> str:
    return path.relative_to(NATIVE).as_posix()


def test_no_two_files_need_each_other() -> None:
    assert native_rings() == []


@pytest.mark.parametrize(
    ("text", "rings"),
    [
        ("int above(void)\n{\n    return 1;\n}\n", []),
        ('/* as below() does */\nint above(void)\n{\n    return puts("below");\n}\n', []),
        ("int above(void)\n{\n    return below();\n}\n", [["one/upper", "two/lower"]]),
    ],
)
def test_a_ring_is_found_by_what_is_called(tmp_path: Path, text: str, rings: list[list[str]]) -> None:
    for name, content in (
        ("one/upper", text),
        ("two/lower", "int below(void)\n{\n    return above();\n}\n"),
    ):
        path = tmp_path / f"{name}.c"
        path.parent.mkdir()
        path.write_text(content)
    assert native_rings(tmp_path) == rings


def test_rooms_depend_downwards() -> None:
    wrong = [
        f"{_name(path)} includes {included}"
        for path in _FILES
        if path.parent != NATIVE
        for included in _INCLUDED.findall(path.read_text(encoding="utf-8"))
        if (path.parent / included).resolve().parent.name not in ROOMS[path.parent.name]
    ]
    assert not wrong, "\n".join(wrong)


def test_files_and_functions_can_be_read_in_one_sitting() -> None:
    assert _FILES
    wrong = []
    for path in _FILES:
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > FILE_LINES:
            wrong.append(f"{_name(path)}: {len(lines)} lines, find the seam")
        begun = 0
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_LENGTH:
                wrong.append(f"{_name(path)}:{number}: {len(line)} characters")
            if line == "{":
                begun = number
            if line == "}" and number - begun > FUNCTION_LINES:
                wrong.append(f"{_name(path)}:{begun}: a function of {number - begun} lines")
    assert not wrong, "\n".join(wrong)


def test_each_file_opens_with_what_it_owns() -> None:
    silent = [_name(path) for path in _FILES if not path.read_text(encoding="utf-8").startswith("/* ")]
    assert not silent, "\n".join(silent)


def test_comments_say_which_program_is_meant() -> None:
    people = re.compile(r"\b(who|whoever|whom|nobody|somebody|everybody|anybody)\b", re.IGNORECASE)
    comment = re.compile(r"/\*.*?\*/", re.DOTALL)
    found = [
        f"{_name(path)}: {' '.join(text.split())}"
        for path in _FILES
        for text in comment.findall(path.read_text(encoding="utf-8"))
        if people.search(text)
    ]
    assert not found, "\n".join(found)
