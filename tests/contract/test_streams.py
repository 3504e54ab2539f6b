"""Output: both streams live, apart, in order, and byte by byte, wherever the command runs."""

import random

import pytest

from outlive.client import Output
from tests.contract.places import Asker
from tests.extensions.fleet.pairs import PATIENCE_S, output_of


@pytest.mark.promise("S4.12.nodes", "S4.12.docker")
def test_both_streams_are_live_and_separate(asker: Asker) -> None:
    """What was written arrives while the command waits, each stream under its name."""
    process = asker.start("echo out; echo err >&2; read line; echo got $line; exit 7", stdin="pipe")
    follow = process.follow()
    seen = {"stdout": b"", "stderr": b""}
    while seen != {"stdout": b"out\n", "stderr": b"err\n"}:
        item = next(follow)
        assert isinstance(item, Output)
        seen[item.stream] += item.data
    assert process.info().state == "running"
    process.write(b"it\n")
    rest = [(item.stream, item.data) for item in follow if isinstance(item, Output)]
    assert rest == [("stdout", b"got it\n")]
    assert process.wait(PATIENCE_S).exit_code == 7


def test_every_byte_arrives_as_it_is(asker: Asker) -> None:
    """Three megabytes of anything, on both streams, without a line end."""
    data = bytes(range(256)) + random.Random(1).randbytes(3_000_000)
    (asker.place.folder / "data").write_bytes(data)
    process = asker.start("cat data; tail -c 1000000 data >&2")
    assert output_of(process) == (data, data[-1_000_000:])


def test_the_order_of_the_streams_is_recorded(asker: Asker) -> None:
    """Writes that are apart in time are read in their order."""
    line = "for i in 1 2 3 4; do echo o$i; sleep .03; echo e$i >&2; sleep .03; done"
    process = asker.start(line)
    process.wait(PATIENCE_S)
    told = b"".join(item.data for item in process.read("0").items if isinstance(item, Output))
    assert told == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 5))


def test_one_pipe_keeps_the_exact_order(asker: Asker) -> None:
    """`merge`."""
    process = asker.start("for i in $(seq 200); do echo o$i; echo e$i >&2; done", merge=True)
    assert output_of(process) == (b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 201)), b"")


def test_many_lines_at_full_speed(asker: Asker) -> None:
    """Nothing is left out, and nothing comes twice."""
    process = asker.start("seq 1 300000; seq 1 1000 >&2")
    out, err = output_of(process)
    assert out == b"".join(b"%d\n" % i for i in range(1, 300_001))
    assert err == b"".join(b"%d\n" % i for i in range(1, 1_001))


def test_output_is_read_again_from_any_cursor(asker: Asker) -> None:
    """A follow and pages that begin in the middle bring the rest, of each stream."""
    process = asker.start("seq 1 5000; seq 1 900 >&2")
    process.wait(PATIENCE_S)
    out = b"".join(b"%d\n" % i for i in range(1, 5001))
    err = b"".join(b"%d\n" % i for i in range(1, 901))
    chance = random.Random(7)
    for _ in range(5):
        at = (chance.randrange(len(out) + 1), chance.randrange(len(err) + 1))
        found = {"stdout": b"", "stderr": b""}
        for item in process.follow(f"{at[0]}.{at[1]}"):
            assert isinstance(item, Output)
            found[item.stream] += item.data
        assert found == {"stdout": out[at[0] :], "stderr": err[at[1] :]}
        pages = {"stdout": b"", "stderr": b""}
        cursor = f"{at[0]}.{at[1]}"
        while True:
            page = process.read(cursor, limit_bytes=4096)
            for item in page.items:
                assert isinstance(item, Output)
                pages[item.stream] += item.data
            cursor = str(page.cursor)
            if not page.has_more:
                break
        assert pages == found


def test_what_descendants_write_behind_the_end_is_kept(asker: Asker) -> None:
    """The process is complete while its streams are open; later output comes."""
    process = asker.start("(sleep .6; echo late) & echo now")
    assert process.wait(PATIENCE_S).is_complete
    assert process.wait(PATIENCE_S, until="closed").is_closed
    told = b"".join(item.data for item in process.read("0").items if isinstance(item, Output))
    assert told == b"now\nlate\n"


def test_colours_and_other_sequences_are_not_touched(asker: Asker) -> None:
    """On a pipe and on a terminal."""
    line = r"printf '\033[1;31mred\033[0m\007\033]0;title\007'"
    wanted = b"\x1b[1;31mred\x1b[0m\x07\x1b]0;title\x07"
    assert output_of(asker.start(line)) == (wanted, b"")
    assert output_of(asker.start(line, pty=True)) == (wanted, b"")
