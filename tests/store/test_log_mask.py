"""Secrets in what is read of a log: however it is read, and while it still grows."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING
from outlive.policy.redaction import Redactor
from outlive.policy.secret_patterns import REACH_BYTES
from outlive.store.log_mask import Hiding, read_masks, write_masks
from outlive.store.output_log import OutputChunk, OutputLog
from outlive.store.search.log_search import LogSearch
from tests.policy.test_redaction import EXTRA, KEY, TEXTS, VALUE, WORD

TOKEN = f"ghp_{WORD[:36]}".encode()
REDACTOR = Redactor(values=[VALUE], extra=EXTRA)


def write(folder: Path, text: bytes, *, age_s: float = 0.0) -> None:
    path = folder / "out"
    path.write_bytes(text)
    then = time.time() - age_s
    os.utime(path, (then, then))


def hidden(
    folder: Path, *, is_over: bool = True, redactor: Redactor = REDACTOR, needs_masks: bool = False
) -> OutputLog:
    hiding = Hiding(redactor=redactor, is_over=lambda: is_over, needs_masks=needs_masks)
    return OutputLog(str(folder), hiding=hiding)


def whole(log: OutputLog, size: int, *, piece: int) -> bytes:
    """Read on in pieces of so many bytes, as a follower does."""
    read = b""
    while len(read) < size and (more := log.pread(0, piece, len(read))):
        read += more
    return read


@given(text=TEXTS, filler=st.integers(0, 3), piece=st.integers(1, 60), begin=st.integers(0, 200))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_however_a_log_is_cut_the_same_is_hidden(
    tmp_path: Path, text: bytes, filler: int, piece: int, begin: int
) -> None:
    text = b"x" * (filler * REACH_BYTES // 2) + b" " + text + b"\nend of it\n"
    write(tmp_path, text)
    expected = REDACTOR.mask(text)
    log = hidden(tmp_path)
    start = max(0, len(text) - begin - 400)
    read = b""
    while start + len(read) < len(text):
        more = log.pread(0, piece, start + len(read))
        assert more
        read += more
    assert read == expected[start:]
    # Anywhere, by a reader that knows nothing yet, and by the one that has read before.
    for wanted in (begin, len(text) - begin):
        place = max(0, min(wanted, len(text)))
        assert hidden(tmp_path).pread(0, piece, place) == expected[place : place + piece]
        assert log.pread(0, piece, place) == expected[place : place + piece]
    assert b"".join(chunk.data for chunk in log.read(BEGINNING, 1 << 18)) == expected[: 1 << 18]


@pytest.mark.parametrize("secret", [TOKEN, VALUE, KEY.encode()], ids=["pattern", "value", "key"])
@pytest.mark.parametrize("border", [4096, 65536, 256 * 1024])
def test_a_secret_across_a_border_at_every_offset(tmp_path: Path, secret: bytes, border: int) -> None:
    shifts = range(len(secret) + 2) if len(secret) < 100 else range(0, len(secret) + 2, 97)
    for shift in shifts:
        text = b"." * (border - shift - 1) + b" " + secret + b" behind\n" + b"." * 50
        write(tmp_path, text)
        assert whole(hidden(tmp_path), len(text), piece=border) == REDACTOR.mask(text)


@given(text=TEXTS, cuts=st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_growing_log_never_shows_what_is_hidden_later(tmp_path: Path, text: bytes, cuts: list[int]) -> None:
    """Written in any pieces and followed at once: together what was shown is what the whole shows."""
    log = hidden(tmp_path, is_over=False)
    shown = b""
    for cut in [*sorted(cuts), len(text)]:
        write(tmp_path, text[:cut])
        shown += log.pread(0, 1 << 18, len(shown))
        assert log.size(0) >= len(shown)
    write(tmp_path, text + b"\n")
    shown += log.pread(0, 1 << 18, len(shown))
    assert shown == REDACTOR.mask(text + b"\n")


def test_what_may_be_a_beginning_is_held_back_until_it_is_decided(tmp_path: Path) -> None:
    calls: list[int] = []
    hiding = Hiding(redactor=REDACTOR, held=lambda: calls.append(1))
    log = OutputLog(str(tmp_path), hiding=hiding)
    write(tmp_path, b"pass ghp_aB3")
    assert log.pread(0, 100, 0) == b"pass ghp_"
    assert log.size(0) == 9
    assert log.pread(0, 100, 9) == b""
    assert calls
    write(tmp_path, b"pass ghp_aB3 no key")
    assert log.pread(0, 100, 9) == b"aB3 no key"
    write(tmp_path, b"pass ghp_aB3 no key, " + VALUE[:6])
    assert log.pread(0, 100, 19) == b", "
    assert log.size(0) == 21
    write(tmp_path, b"pass ghp_aB3 no key, " + VALUE)
    assert log.pread(0, 100, 21) == b"*" * len(VALUE)


def test_a_beginning_that_rests_is_shown_and_that_of_a_known_value_never(tmp_path: Path) -> None:
    log = hidden(tmp_path, is_over=False)
    write(tmp_path, b"$ curl http://localhost:80", age_s=5)
    assert log.pread(0, 100, 0) == b"$ curl http://localhost:80"
    write(tmp_path, b"$ curl http://localhost:80 " + VALUE[:6], age_s=5)
    assert log.pread(0, 100, 26) == b" ******"
    write(tmp_path, b"$ " + VALUE[:2], age_s=5)
    assert hidden(tmp_path, is_over=False).pread(0, 100, 0) == b"$ " + VALUE[:2]
    # The end of the stream decides as well: half a value stays hidden.
    write(tmp_path, b"cut " + VALUE[:9])
    assert hidden(tmp_path).pread(0, 100, 0) == b"cut *********"


def test_a_search_finds_no_secret_and_shows_none(tmp_path: Path) -> None:
    write(tmp_path, b"one\nkey " + TOKEN + b" behind\n" + b"." * 600_000 + b"\nlast " + VALUE + b"\n")
    log = hidden(tmp_path)

    def found(text: bytes) -> list[bytes]:
        search = LogSearch(log, text, context=1)
        lines = []
        while not search.is_over:
            lines += search.turn(10)
        return [line.data for line in lines]

    assert found(TOKEN[4:12]) == []
    assert found(VALUE) == []
    assert found(b"behind") == [b"key ghp_" + b"*" * 36 + b" behind"]
    assert found(b"last *") == [b"last " + b"*" * len(VALUE)]


def test_places_are_noted_without_values(tmp_path: Path) -> None:
    text = b"a " + VALUE + b" b\n" + b"." * 300_000 + VALUE + b"\nend\n"
    write(tmp_path, text)
    raw = OutputLog(str(tmp_path))
    assert read_masks(str(tmp_path)) is None
    everything = hidden(tmp_path, redactor=Redactor(), needs_masks=True).pread(0, 100, 0)
    assert set(everything) == set(b"*\n")  # nobody knows where they are: nothing is shown
    write_masks(raw, str(tmp_path), Redactor(patterns=False, values=[VALUE]), (len(text), 0))
    assert VALUE not in (tmp_path / "masks").read_bytes()
    log = hidden(tmp_path, redactor=Redactor(), needs_masks=True)
    assert whole(log, len(text), piece=1 << 18) == REDACTOR.mask(text)
    write(tmp_path, text + b"more\n")  # written since: not looked through
    log = hidden(tmp_path, redactor=Redactor(), needs_masks=True)
    assert log.pread(0, 100, len(text) - 4) == b"end\n****\n"
    (tmp_path / "masks").write_text('{"out": 1}')
    assert read_masks(str(tmp_path)) is None


def test_nothing_is_hidden_where_nothing_shall_be(tmp_path: Path) -> None:
    write(tmp_path, TOKEN)
    assert OutputLog(str(tmp_path)).pread(0, 100, 0) == TOKEN
    assert (
        OutputLog(str(tmp_path), hiding=Hiding(redactor=Redactor(patterns=False))).pread(0, 100, 0) == TOKEN
    )


def test_a_gap_before_a_piece_is_no_obstacle(tmp_path: Path) -> None:
    text = b"." * 5000 + b"\0" * 3000 + b" " + TOKEN + b"\n"
    write(tmp_path, text)
    (tmp_path / "gaps").write_text("5000 8000 0 0\n")
    log = hidden(tmp_path)
    chunks = log.read(BEGINNING, 1 << 18)
    assert [chunk.is_gap for chunk in chunks] == [False, True, False]
    assert chunks[2].data == b" ghp_" + b"*" * 36 + b"\n"
    assert OutputChunk.after(BEGINNING, chunks).stdout == len(text)
