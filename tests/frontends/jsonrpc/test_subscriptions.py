"""From the bytes of a log to messages: any cut of the reads gives the same lines, gaps are told, ends are
exact.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlive.core.lifecycle import State
from outlive.frontends.jsonrpc.readers import StreamReader
from outlive.frontends.jsonrpc.subscriptions import Subscription
from outlive.protocols.keeper import Flags, Phase
from tests.frontends.jsonrpc.following import (
    PROCESS_ID,
    WrittenProcess,
    line_readers,
    messages_of,
    piece_readers,
)
from tests.support.reference import lines_of

_piece = st.one_of(
    st.sampled_from(
        [
            b"\n",
            b"\n\n",
            b"\r\n",
            b"\x7f",
            "\uffff".encode(),
            b"\xe2\x82",
            b"\xac",
            b"x" * 40,
            "é€😀".encode(),
        ]
    ),
    st.binary(max_size=10),
)
_writes = st.lists(st.lists(_piece, max_size=5).map(b"".join), max_size=8)


@contextmanager
def _written() -> Iterator[WrittenProcess]:
    # Hypothesis runs many examples in one test: each needs a folder of its own.
    with tempfile.TemporaryDirectory() as folder:
        yield WrittenProcess(Path(folder))


def _all_turns(subscription: Subscription) -> list[dict[str, Any]]:
    frames = b""
    has_more = True
    while has_more:
        more, has_more = subscription.turn()
        frames += more
    return messages_of(frames)


def _outputs(messages: list[dict[str, Any]], stream: str = "stdout") -> list[dict[str, Any]]:
    return [
        message["params"]
        for message in messages
        if message["method"] == "process.output" and message["params"]["type"] == stream
    ]


@settings(max_examples=300, deadline=None)
@given(writes=_writes, turn=st.integers(1, 70), limit=st.sampled_from([1, 4, 7, 64, 8192]))
@example(writes=[b"ab", b"c\n"], turn=1, limit=8192)
@example(writes=[b"x" * 100, b"\ny"], turn=3, limit=4)
def test_lines_do_not_depend_on_the_cuts_of_the_reads(writes: list[bytes], turn: int, limit: int) -> None:
    """S0.6, S0.7, S0.20: whatever is read at a time."""
    with _written() as written:
        readers = line_readers(written.process, max_line_bytes=limit)
        subscription = Subscription(written.process, readers, turn_bytes=turn)
        messages: list[dict[str, Any]] = []
        for data in writes:
            written.write(data)
            messages += _all_turns(subscription)
        written.end()
        messages += _all_turns(subscription)
        whole = b"".join(writes)
        expected = lines_of(whole, max_line_bytes=limit)
        told = _outputs(messages)
        assert len(told) == len(expected)
        for params, line in zip(told, expected, strict=True):
            assert params["data"] in line.texts
            assert (params["truncated"], params.get("length"), params["end"]) == (
                line.truncated,
                line.length,
                line.end,
            )
        assert messages[-1]["method"] == "process.completed"
        assert messages[-1]["params"]["cursor"] == f"{len(whole)}.0"
        assert subscription.is_over


@settings(max_examples=200, deadline=None)
@given(writes=_writes, turn=st.integers(1, 70), is_binary=st.booleans())
def test_pieces_joined_are_the_stream(writes: list[bytes], turn: int, is_binary: bool) -> None:
    """S0.3, S0.6: chunk decodes incrementally, binary keeps the bytes."""
    with _written() as written:
        readers = piece_readers(written.process, is_binary=is_binary)
        # A read shorter than a character could never take one: real turns are 256 KiB.
        subscription = Subscription(written.process, readers, turn_bytes=max(turn, 4))
        messages: list[dict[str, Any]] = []
        for data in writes:
            written.write(data)
            messages += _all_turns(subscription)
        written.end()
        messages += _all_turns(subscription)
        pieces = [params["data"] for params in _outputs(messages)]
        whole = b"".join(writes)
        if is_binary:
            assert b"".join(pieces) == whole
        else:
            assert "".join(pieces) == whole.decode("utf-8", "replace")
        assert messages[-1]["params"]["cursor"] == f"{len(whole)}.0"


@settings(max_examples=100, deadline=None)
@given(writes=st.lists(st.tuples(st.sampled_from([0, 1]), _piece), max_size=12), turn=st.integers(1, 40))
def test_both_streams_arrive_whole(writes: list[tuple[int, bytes]], turn: int) -> None:
    """S0.6: neither stream waits for the other."""
    with _written() as written:
        subscription = Subscription(written.process, line_readers(written.process), turn_bytes=turn)
        for stream, data in writes:
            written.write(data, stream)
        written.end()
        messages = _all_turns(subscription)
        for stream, name in enumerate(("stdout", "stderr")):
            whole = b"".join(data for number, data in writes if number == stream)
            assert "".join(params["data"] for params in _outputs(messages, name)) == whole.decode(
                "utf-8", "replace"
            )


def _lines_subscription(
    written: WrittenProcess,
    *,
    turn_bytes: int = 1000,
    max_line_bytes: int = 8192,
    start: tuple[int, int] = (0, 0),
) -> Subscription:
    readers = line_readers(written.process, max_line_bytes=max_line_bytes, start=start)
    return Subscription(written.process, readers, turn_bytes=turn_bytes)


def test_a_turn_is_bounded_in_lines_too(tmp_path: Path) -> None:
    """S0.16: a flood of empty lines makes 150 bytes of frames from each byte."""
    written = WrittenProcess(tmp_path)
    written.write(b"\n" * 60_000)
    frames, has_more = _lines_subscription(written, turn_bytes=64 * 1024).turn()
    assert has_more
    assert len(messages_of(frames)) <= 4096


def test_a_gap_is_told_between_the_lines_around_it(tmp_path: Path) -> None:
    """S0.20: what precedes it is shown, the lines behind it have their true offsets."""
    written = WrittenProcess(tmp_path)
    written.write(b"one\nhal" + b"f" * 50 + b"\nlast\n")
    written.release(7, 57)
    written.end()
    messages = _all_turns(_lines_subscription(written))
    told = [(message["method"], message["params"]) for message in messages]
    assert [method for method, _ in told] == [
        "process.output",
        "process.output",
        "process.gap",
        "process.output",
        "process.output",
        "process.completed",
    ]
    assert (told[1][1]["data"], told[1][1]["end"]) == ("hal", 7)
    assert told[2][1] == {"process_id": PROCESS_ID, "type": "stdout", "from": 7, "to": 57, "cursor": "57.0"}
    assert (told[3][1]["data"], told[3][1]["end"]) == ("\n", 58) or told[3][1]["data"] == "f\n"
    assert told[5][1]["cursor"] == "63.0"


@pytest.mark.parametrize("is_binary", [False, True])
def test_a_gap_in_the_middle_of_a_character_does_not_stop_a_stream(tmp_path: Path, is_binary: bool) -> None:
    """S0.20: chunk mode waits for the rest of a character, but not for one that is gone."""
    written = WrittenProcess(tmp_path)
    written.write(b"ab\xe2" + b"\x82" * 20 + b"cd")
    written.release(3, 23)
    written.end()
    readers = piece_readers(written.process, is_binary=is_binary)
    messages = _all_turns(Subscription(written.process, readers, turn_bytes=100))
    pieces = [params["data"] for params in _outputs(messages)]
    assert pieces == ([b"ab\xe2", b"cd"] if is_binary else ["ab", "\ufffd", "cd"])
    (gap,) = [message["params"] for message in messages if message["method"] == "process.gap"]
    assert (gap["from"], gap["to"]) == (3, 23)


def test_what_was_released_while_its_line_was_unfinished_is_a_gap(tmp_path: Path) -> None:
    """S0.20: a line whose beginning is gone when its end comes is not made up."""
    written = WrittenProcess(tmp_path)
    subscription = _lines_subscription(written)
    written.write(b"beginning ")
    assert _all_turns(subscription) == []
    written.release(0, 10)
    written.write(b"end\n")
    written.end()
    messages = _all_turns(subscription)
    assert [message["method"] for message in messages] == [
        "process.gap",
        "process.output",
        "process.completed",
    ]
    assert messages[1]["params"]["data"] == "end\n"


def test_what_a_process_writes_before_its_pid_is_known_follows_its_start(tmp_path: Path) -> None:
    """S0.4: of one that waited for its turn, output may be in the log before the keeper has heard from the
    shim.
    """
    written = WrittenProcess(tmp_path, state=State.QUEUED)
    subscription = _lines_subscription(written)
    written.process.status.admit()
    written.write(b"early\n", told=False)
    written.tell(Phase.STARTING, flags=Flags.OUT_OPEN, pid=0)
    assert _all_turns(subscription) == []
    written.end()
    methods = [message["method"] for message in _all_turns(subscription)]
    assert methods == ["process.started", "process.output", "process.completed"]


def test_output_that_cannot_be_read_any_more_is_told_as_a_gap(tmp_path: Path) -> None:
    """S0.20: a log shorter than the keeper told (its folder was removed) still ends with a completion."""
    written = WrittenProcess(tmp_path)
    written.write(b"one\ntwo\n")
    written.process.status.absorb(100, 5, 7, 0, Phase.DONE, 0, Flags(0), 0)
    messages = _all_turns(_lines_subscription(written))
    gaps = [message["params"] for message in messages if message["method"] == "process.gap"]
    assert [(gap["type"], gap["from"], gap["to"]) for gap in gaps] == [("stdout", 8, 100), ("stderr", 0, 5)]
    assert messages[-1]["params"]["cursor"] == "100.5"


def test_late_output_belongs_to_a_later_subscription(tmp_path: Path) -> None:
    """S0.4: nothing follows completed; what descendants wrote until an attach comes with that attach."""
    written = WrittenProcess(tmp_path)
    early = _lines_subscription(written)
    written.write(b"own\n")
    written.end(is_open=True)
    written.write(b"late\n", told=False)
    written.end(is_open=True)
    first = _all_turns(early)
    assert [message["method"] for message in first] == ["process.output", "process.completed"]
    assert first[1]["params"]["cursor"] == "4.0"
    late = _all_turns(_lines_subscription(written, start=(4, 0)))
    assert [params["data"] for params in _outputs(late)] == ["late\n"]
    assert late[-1]["params"]["cursor"] == "9.0"
    assert not early.is_over
    written.end()
    (closed,) = _all_turns(early)
    assert (closed["method"], closed["params"]["process_id"]) == ("process.closed", PROCESS_ID)
    assert early.is_over
    assert early.turn() == (b"", False)


def test_an_unfinished_line_over_the_limit_is_shown_by_its_first_part(tmp_path: Path) -> None:
    """S0.6, S0.7: a progress bar of kilobytes without a newline; a cut character waits."""
    written = WrittenProcess(tmp_path)
    subscription = _lines_subscription(written, max_line_bytes=4)
    written.write(b"abcdefgh\xe2\x82")
    assert _all_turns(subscription) == []
    assert subscription.has_partial
    (partial,) = messages_of(subscription.show_partial())
    assert (
        partial["params"].items()
        >= {
            "data": "abcd...\n",
            "truncated": True,
            "partial": True,
            "length": 8,
            "end": 8,
        }.items()
    )
    assert subscription.show_partial() == b""
    written.write(b"\xac\n")
    (rest,) = _all_turns(subscription)
    assert (rest["params"]["data"], rest["params"]["end"]) == ("€\n", 12)


def test_pieces_have_no_partial_lines(tmp_path: Path) -> None:
    written = WrittenProcess(tmp_path)
    readers: tuple[StreamReader, StreamReader] = piece_readers(written.process)
    subscription = Subscription(written.process, readers, turn_bytes=100)
    written.write(b"a\xe2")
    assert len(_all_turns(subscription)) == 1
    assert not subscription.has_partial
    assert subscription.show_partial() == b""


def test_a_gap_in_one_of_two_waiting_streams_is_told(tmp_path: Path) -> None:
    """S0.20: also where both streams are read in the order of writing."""
    written = WrittenProcess(tmp_path)
    written.write(b"one\n" + b"x" * 30 + b"\nlast\n")
    written.write(b"err\n", 1)
    written.release(4, 34)
    written.end()
    messages = _all_turns(_lines_subscription(written))
    assert [params["data"] for params in _outputs(messages)] == ["one\n", "\n", "last\n"]
    assert [params["data"] for params in _outputs(messages, "stderr")] == ["err\n"]
    (gap,) = [message["params"] for message in messages if message["method"] == "process.gap"]
    assert (gap["from"], gap["to"]) == (4, 34)


def test_a_cut_character_of_one_stream_does_not_stop_the_other(tmp_path: Path) -> None:
    """S0.6: chunk mode, both streams waiting."""
    written = WrittenProcess(tmp_path)
    subscription = Subscription(written.process, piece_readers(written.process), turn_bytes=100)
    written.write(b"\xe2", told=False)
    written.write(b"err", 1)
    messages = _all_turns(subscription)
    assert [params["data"] for params in _outputs(messages, "stderr")] == ["err"]
    written.write(b"\x82\xac")
    written.end()
    assert [params["data"] for params in _outputs(_all_turns(subscription))] == ["€"]
