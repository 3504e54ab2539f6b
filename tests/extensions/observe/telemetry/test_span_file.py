"""What waits for a collector on disk: read again by the next server, and bounded."""

from pathlib import Path

from outlive.extensions.observe.telemetry import span_file
from outlive.extensions.observe.telemetry.command_span import CommandSpan
from outlive.extensions.observe.telemetry.span_file import LeftSpans, SpanFile


def _span(number: int) -> CommandSpan:
    return CommandSpan(
        process_id=f"p{number}", trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}", ended_ns=number
    )


def _left(path: Path, most: int = 100) -> list[str]:
    file = SpanFile(str(path), most=most)
    found = [span.process_id for span in file.open().spans]
    file.close()
    return found


def test_what_was_not_settled_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    file = SpanFile(str(path), most=100)
    assert file.open() == LeftSpans()
    file.add(map(_span, range(5)))
    file.settle(["p1", "p3", "p-unknown"])
    # No close: as after SIGKILL.
    assert _left(path) == ["p0", "p2", "p4"]
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_what_was_settled_is_known_to_the_next_server(tmp_path: Path) -> None:
    """So that an end which is looked for again is not sent again."""
    path = tmp_path / "spans"
    file = SpanFile(str(path), most=100)
    assert file.open().written_at_s is None
    file.add(map(_span, range(5)))
    file.settle(f"p{number}" for number in range(3))
    for _ in range(2):
        file = SpanFile(str(path), most=100)
        assert file.open().written_at_s is not None
        assert [file.knows(f"p{number}") for number in range(6)] == [True] * 5 + [False]


def test_of_what_was_settled_the_newest_are_known(tmp_path: Path) -> None:
    file = SpanFile(str(tmp_path / "spans"), most=100)
    file.open()
    file.settle(f"p{number}" for number in range(span_file._REMEMBERED + 10))
    assert (file.knows("p9"), file.knows("p10")) == (False, True)


def test_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    file = SpanFile(str(path), most=100)
    file.open()
    file.add(map(_span, range(3)))
    path.write_bytes(path.read_bytes()[:-20])
    assert _left(path) == ["p0", "p1"]


def test_of_more_than_wait_the_newest_are_there_again(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    file = SpanFile(str(path), most=100)
    file.open()
    file.add(map(_span, range(10)))
    assert _left(path, most=3) == ["p7", "p8", "p9"]


def test_the_file_does_not_grow_beyond_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "spans"
    file = SpanFile(str(path), most=100)
    file.open()
    file.add([_span(0)])
    for number in range(1, 10_000, 100):
        file.add(map(_span, range(number, number + 100)))
        file.settle(f"p{one}" for one in range(number, number + 100))
    assert path.stat().st_size < span_file._MOST_BYTES + 200_000
    assert _left(path) == ["p0"]


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    file = SpanFile(str(tmp_path / "missing" / "spans"), most=100)
    assert file.open() == LeftSpans()
    file.add([_span(1)])
    assert file.knows("p1")
    file.settle(["p1"])
    file.close()
