"""What skipped output leaves in a terminal: the newest of each mode, of the scroll region and of the colours,
however it is cut.
"""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.terminal.carried_modes import CarriedModes

_ESC = b"\x1b"
_MODES = {
    name: (b"\x1b[" + name + b"h", b"\x1b[" + name + b"l")
    for name in (b"?1", b"?25", b"?2004", b"?1006", b"4")
}
_TEXTS = st.sampled_from(
    [b"text", "grün 日本".encode(), b"\r\n", b"\x1b[2J", b"\x1b[12;40H", b"\x1b]0;title\x07", b"x" * 700]
)
_SWITCHES = st.tuples(st.sampled_from(sorted(_MODES)), st.booleans()).map(
    lambda one: _MODES[one[0]][not one[1]]
)
_COLOURS = st.sampled_from(
    [b"\x1b[m", b"\x1b[0m", b"\x1b[31m", b"\x1b[1;4m", b"\x1b[0;32m", b"\x1b[38:2::1:2:3m"]
)


def _read(data: bytes, cuts: list[int]) -> CarriedModes:
    modes = CarriedModes()
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        modes.take(data[begin:end])
    return modes


def _carried(data: bytes, cuts: list[int] | None = None) -> bytes:
    return _read(data, cuts or []).sequences()


def _newest(data: bytes) -> dict[bytes, bytes]:
    """Return how each mode was switched last, as a terminal that reads everything knows it."""
    return {found[1]: found[2] for found in re.finditer(rb"\x1b\[(\??\d+)([hl])", data)}


@pytest.mark.promise("T.lag")
@given(parts=st.lists(st.one_of(_TEXTS, _SWITCHES)), cuts=st.lists(st.integers(0, 5000), max_size=6))
def test_each_mode_is_as_the_whole_output_leaves_it(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    carried = _carried(data, cuts)
    assert _newest(carried) == _newest(data)
    # Each once: what is written to the emulator does not grow with what is skipped.
    assert len(carried) < 200


def _attributes(data: bytes) -> list[bytes]:
    """Return the colours since the last reset."""
    found = re.findall(rb"\x1b\[[\d;:]*m", data)
    resets = [
        place
        for place, one in enumerate(found)
        if one in {b"\x1b[m", b"\x1b[0m"} or one.startswith(b"\x1b[0;")
    ]
    return found[resets[-1] if resets else 0 :]


@given(
    parts=st.lists(st.one_of(_TEXTS, _COLOURS), max_size=30), cuts=st.lists(st.integers(0, 5000), max_size=3)
)
def test_colours_are_those_since_the_newest_reset(parts: list[bytes], cuts: list[int]) -> None:
    wanted, carried = _attributes(b"".join(parts)), _attributes(_carried(b"".join(parts), cuts))
    # One that stands at a cut may come twice, and what is long past may be missing; the newest is never.
    assert carried[-1:] == wanted[-1:]
    assert set(carried) <= set(wanted)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (
            b"\x1b[?1049h\x1b[3;9rmenu\x1b[?1049l$ ",
            b"\x1b[?1049l",
        ),  # each screen has a scroll region of its own
        (b"\x1b[?47h", b"\x1b[?47h"),
        (b"\x1b[?1049h\x1b[?1047l", b"\x1b[?1047l"),
        (b"\x1b[?1000;1006h", b"\x1b[?1000h\x1b[?1006h"),
        (b"\x1b[2;20r", b"\x1b7\x1b[2;20r\x1b8"),
        (b"\x1b(0lqk\x1b(B", b"\x1b(B"),
        (b"\x1b)0\x0elqk\x0f", b"\x1b)0\x0f"),
        (b"\x1b=\x1b>\x1b[5 q", b"\x1b>\x1b[5 q"),
        (b"\x1b[?25l\x1b[31m\x0e\x1bc\x1b[1m", b"\x1bc\x1b[1m"),
        (b"\x1b[?2004h\x1b[!p", b"\x1b[!p"),
        (b"\x1b[?1048h\x1b[>4;1m\x1b[?9999h\x1b[12h", b"\x1b[>4;1m"),
    ],
)
def test_what_is_carried(data: bytes, wanted: bytes) -> None:
    prelude = _carried(b"")
    assert _carried(data) == prelude + wanted


def test_a_sequence_that_the_skip_cuts_is_ended() -> None:
    assert _carried(b"").startswith(b"\x18")


@given(data=st.binary(max_size=3000), cuts=st.lists(st.integers(0, 3000), max_size=5))
def test_any_bytes_give_few_and_only_ascii(data: bytes, cuts: list[int]) -> None:
    carried = _carried(data.replace(b"\x00", _ESC + b"["), cuts)
    assert carried.isascii()
    assert len(carried) < 3000


_DEFAULTS = {b"?25": b"h"}


@given(parts=st.lists(st.one_of(_TEXTS, _SWITCHES)), cuts=st.lists(st.integers(0, 5000), max_size=6))
def test_nothing_is_left_on_and_nothing_else_is_touched(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    undone = _read(data, cuts).undo()
    is_on = {name for name, how in _newest(data).items() if how != _DEFAULTS.get(name, b"l")}
    assert _newest(undone) == {name: _DEFAULTS.get(name, b"l") for name in is_on}


@pytest.mark.parametrize(
    ("data", "undone"),
    [
        (b"\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h", b"\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[?1049l"),
        (b"\x1b[?1049h\x1b[?1049l", b""),
        (b"\x1b[?1049h\x1bc", b""),
        (b"\x1b[2;20r", b"\x1b7\x1b[r\x1b8"),
        (b"\x1b[2;20r\x1b[r", b""),
        (b"\x1b=\x1b[5 q\x1b(0\x0e", b"\x1b(B\x1b[0 q\x1b>\x0f"),
        (b"\x1b>\x1b(B\x0f", b""),
        (b"\x1b[1;31mred", b"\x1b[m"),
        (b"\x1b[1;31mred\x1b[0m", b""),
        (b"\x1b[>1u\x1b[>5u", b"\x1b[<2u"),
        (b"\x1b[>1u\x1b[>5u\x1b[<u", b"\x1b[<1u"),
        (b"\x1b[>1u\x1b[<9u\x1b[<u", b""),
        (b"\x1b[>4;2m", b"\x1b[>4m"),
    ],
)
def test_what_is_on_is_taken_back(data: bytes, undone: bytes) -> None:
    for count in (0, len(data)):
        assert _read(data, [*range(count)]).undo().removeprefix(b"\x18\x1b]8;;\x1b\\") == undone
