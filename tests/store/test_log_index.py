"""The index of a log: it never says no where the log has a match, whatever was written, hidden, released, cut
or damaged.
"""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.policy.redaction import Redactor
from outlive.protocols.output.line_query import LineQuery, needed_literals
from outlive.store.log_mask import Hiding
from outlive.store.output_log import OutputLog
from outlive.store.search import log_index
from outlive.store.search.line_search import LineSearch
from outlive.store.search.log_index import LogIndex, key_of, make_record
from tests.store.keeper_writes import KeeperWrites
from tests.store.test_line_search import places, searched

_KEY = key_of(Redactor())
_TOKEN = b"ghp_aB3xY9kQ2mN7vR4tW8zL5cD1fG6hJ0pS3uE2"
_WORDS = [
    b"needle",
    b"Needle",
    b"need",
    b"haystack",
    b"0123456789abcdef",
    b"\xff\xfe",
    b" ",
    b"\n",
    b"x" * 50,
    "größe".encode(),
]


def shown(folder: Path) -> OutputLog:
    return OutputLog(str(folder), hiding=Hiding(redactor=Redactor(), is_over=lambda: True))


def indexed(folder: Path, group: int) -> None:
    """Index both streams as the program does, in groups of any size."""
    log = shown(folder)
    with (folder / "index").open("wb") as file:
        for stream, name in enumerate(("out", "err")):
            size = (folder / name).stat().st_size if (folder / name).exists() else 0
            for offset in range(0, size, group):
                record = make_record(log, stream, offset, min(group, size - offset), _KEY, go_on=lambda: True)
                assert record is not None
                file.write(record)
    log.close()


def found(folder: Path, query: LineQuery, *, with_index: bool) -> tuple[list[tuple[int, int, int]], int]:
    """Return where lines match, and how much was read."""
    literals = needed_literals(query)
    index = LogIndex(str(folder), _KEY, literals) if with_index and literals is not None else None
    log = shown(folder)
    search = LineSearch(log, query, index=index)
    lines = places(searched(search))
    log.close()
    return lines, search.read_bytes


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 1]), st.sampled_from(_WORDS), st.integers(1, 30)), max_size=40),
    st.sampled_from(
        [
            ("needle", False),
            ("eedle", False),
            ("cdef0123", False),
            ("need.*stack", True),
            ("größe", False),
            ("haystack|NEEDLE", True),
        ]
    ),
    st.booleans(),
    st.sampled_from([1024, 2048]),
    st.integers(0, 2000),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_with_an_index_the_same_lines_are_found(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[int, bytes, int]],
    wanted: tuple[str, bool],
    fold: bool,
    group: int,
    gap: int,
) -> None:
    folder = tmp_path_factory.mktemp("process")
    keeper = KeeperWrites(folder)
    for stream, word, count in parts:
        keeper.write(stream, word * count)
    if keeper.sizes[0] > gap + 64:
        keeper.release(0, gap, gap + 64)
    query = LineQuery(wanted[0], is_regex=wanted[1], ignores_case=fold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_index, "GROUP_BYTES", group)
        indexed(folder, group)
        assert LogIndex(str(folder), _KEY).covered(0) == keeper.sizes[0]
        # Lines that lie across a gap begin where the search begins to read: what counts is that each match is
        # found.
        ends = [(stream, end) for stream, _, end in found(folder, query, with_index=False)[0]]
        assert [(stream, end) for stream, _, end in found(folder, query, with_index=True)[0]] == ends


def written(folder: Path, *, size: int = 6_000_000) -> None:
    """Write a log of that many bytes, with one line that is nowhere else."""
    chance = random.Random(5)
    words = [f"{chance.getrandbits(40):x}" for _ in range(3000)]
    lines = b"".join(" ".join(chance.choices(words, k=12)).encode() + b"\n" for _ in range(size // 130))
    half = lines.index(b"\n", len(lines) // 2) + 1
    KeeperWrites(folder).write(0, lines[:half] + b"the rare Zanzibar line\n" + lines[half:])


@pytest.mark.parametrize("text", ["Zanzibar", "rare Zan", "no such text at all"])
def test_what_cannot_hold_a_text_is_not_read(tmp_path: Path, text: str) -> None:
    written(tmp_path)
    indexed(tmp_path, log_index.GROUP_BYTES)
    query = LineQuery(text)
    lines, read = found(tmp_path, query, with_index=True)
    assert (lines, (tmp_path / "out").stat().st_size) == found(tmp_path, query, with_index=False)
    assert read <= 5 * 256 * 1024  # of 6 MB
    assert (tmp_path / "index").stat().st_size < 0.15 * (tmp_path / "out").stat().st_size


def test_an_index_that_is_damaged_anywhere_hides_nothing(tmp_path: Path) -> None:
    written(tmp_path, size=700_000)
    indexed(tmp_path, log_index.GROUP_BYTES)
    whole = (tmp_path / "index").read_bytes()
    query = LineQuery("Zanzibar")
    expected = found(tmp_path, query, with_index=False)[0]
    assert len(expected) == 1
    chance = random.Random(6)
    for place in [*range(40), *(chance.randrange(len(whole)) for _ in range(150))]:
        for data in (
            whole[:place],
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :],
            whole[:place] + bytes(len(whole) - place),
        ):
            (tmp_path / "index").write_bytes(data)
            assert found(tmp_path, query, with_index=True)[0] == expected, place


def test_an_index_made_by_other_rules_of_redaction_is_not_asked(tmp_path: Path) -> None:
    """A server that hides less than the one before finds what is shown now."""
    KeeperWrites(tmp_path).write(0, b"x" * 80_000 + b"\nkey " + _TOKEN + b"\n")
    indexed(tmp_path, log_index.GROUP_BYTES)
    assert found(tmp_path, LineQuery(_TOKEN[4:20].decode()), with_index=True)[0] == []
    key = key_of(Redactor(patterns=False))
    assert key != _KEY
    query = LineQuery(_TOKEN[4:20].decode())
    index = LogIndex(str(tmp_path), key, needed_literals(query) or ())
    assert index.covered(0) == 0
    assert len(searched(LineSearch(OutputLog(str(tmp_path)), query, index=index))) == 1


def test_nothing_of_a_secret_is_in_an_index(tmp_path: Path) -> None:
    """The attack: two logs that differ in a secret alone have the same index."""
    made = []
    for number, secret in enumerate((_TOKEN, _TOKEN[:4] + _TOKEN[:3:-1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        KeeperWrites(folder).write(
            0, b"some lines\n" * 9000 + b"key " + secret + b" end\n" + b"more\n" * 9000
        )
        indexed(folder, log_index.GROUP_BYTES)
        made.append((folder / "index").read_bytes())
    assert made[0] == made[1]
