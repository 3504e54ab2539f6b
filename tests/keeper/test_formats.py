"""The bytes that keepers of different versions and deaths leave to each other: round trips and torn tails."""

import contextlib
import os
import resource
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.core.identity import id_from_bytes
from outlive.core.lifecycle import Cause
from outlive.core.spec import SharedEnvironment, Spec
from outlive.keeper.supervisor.output.limits import read_gaps
from outlive.kernel.state_files import Journal, read_journal
from outlive.protocols.frames import (
    IDX,
    ExitRecord,
    IdxRecord,
    PidRecord,
    decode_end,
    decode_exec,
    decode_exit,
    decode_idx,
    decode_pid,
    encode_exit,
    encode_pid,
    exit_from_wait,
    split_extended,
    take_begins,
)
from outlive.protocols.keeper import (
    RECORD,
    CauseCode,
    decode_message,
    decode_spec,
    encode_message,
    encode_spec,
    with_meta,
)
from tests.support.doorbells import Doorbell, decode_doorbells


@contextlib.contextmanager
def _file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: a write takes what fits, as on a disk that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# What can stand in an argument or a variable: any bytes but NUL; those that are no UTF-8 travel as
# surrogates.
_words = st.binary(max_size=30).map(lambda raw: raw.replace(b"\0", b"").decode("utf-8", "surrogateescape"))
_names = _words.filter(lambda word: word and "=" not in word)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
# A lambda: of a named tuple's own fields Hypothesis would draw those with a default, too.
_specs = st.builds(
    lambda **members: Spec(**members),  # noqa: PLW0108
    program=_words,
    argv=st.lists(_words, min_size=1, max_size=6).map(tuple),
    env=st.dictionaries(_names, _words, max_size=5),
    cwd=_words,
    stdio=st.sampled_from(["pipes", "merge", "pty"]),
    stdin=st.sampled_from(["none", "pipe"]),
    rows=st.integers(1, 1000),
    cols=st.integers(1, 1000),
    timeout_s=st.none() | st.floats(0, 1e9),
    grace_s=st.floats(0, 1e9),
    output_limit=st.none() | st.integers(1, 2**62),
    on_limit=st.sampled_from(["truncate", "block", "kill"]),
    after_exit=st.sampled_from(["keep", "kill", "wait"]),
    meta=st.dictionaries(st.text(max_size=8), _json, max_size=3),
)
_no_nul = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
_bounded_specs = st.builds(
    lambda spec, names, steps: spec._replace(secrets=tuple(names), confinement=tuple(steps) or None),
    _specs,
    st.lists(_no_nul, max_size=4),
    st.lists(_no_nul, max_size=4),
)
_ids = st.binary(min_size=16, max_size=16).map(id_from_bytes)
_u64 = st.integers(0, 2**64 - 1)
_ns = st.integers(0, 2**63 - 1)
_idx_records = st.builds(IdxRecord, st.integers(1, 2**64 - 1), _u64, _u64, st.integers(0, 1))


@given(_specs)
def test_a_spec_comes_back_as_it_was(spec: Spec) -> None:
    assert decode_spec(encode_spec(spec)) == spec


@given(_bounded_specs, st.dictionaries(st.text("ab", min_size=1), _no_nul))
def test_members_are_added_to_a_written_spec_and_its_command_stays(spec: Spec, added: dict[str, str]) -> None:
    raw = encode_spec(spec)
    described = with_meta(raw, added)
    assert decode_spec(described) == spec._replace(meta={**spec.meta, **added})
    assert _exec_block(described) == _exec_block(raw)


@given(_specs, st.dictionaries(st.text("ab", min_size=1), _no_nul))
def test_what_specs_share_of_an_environment_is_part_of_it_once_written(
    spec: Spec, shared: dict[str, str]
) -> None:
    own = {name: value for name, value in spec.env.items() if name not in shared}
    raw = encode_spec(spec._replace(env=own, shared_env=SharedEnvironment(shared)))
    assert decode_spec(raw) == spec._replace(env={**shared, **own})


def _exec_block(raw: bytes) -> bytes:
    line, _, rest = raw.partition(b"\n")
    return rest[int(line.split()[1]) :]


@given(_specs)
def test_the_shim_finds_what_to_execute_without_reading_the_head(spec: Spec) -> None:
    program, cwd, argv, env = decode_exec(_exec_block(encode_spec(spec)))
    assert (os.fsdecode(program), os.fsdecode(cwd)) == (spec.program, spec.cwd)
    assert tuple(map(os.fsdecode, argv)) == spec.argv
    assert take_begins(env) == (spec.umask, spec.nice)
    assert {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()} == spec.env


@given(_bounded_specs)
def test_a_spec_with_bounds_comes_back_and_has_them_before_its_program(spec: Spec) -> None:
    raw = encode_spec(spec)
    assert decode_spec(raw) == spec
    program, _, words, _ = decode_exec(_exec_block(raw))
    if spec.confinement is None:
        assert os.fsdecode(program) == spec.program
        return
    assert not os.path.lexists(program)
    steps, program, argv = split_extended(words)
    assert tuple(map(os.fsdecode, steps)) == spec.confinement
    assert (os.fsdecode(program), tuple(map(os.fsdecode, argv))) == (spec.program, spec.argv)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_spec_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode_spec(raw)


@given(_specs, st.data())
def test_a_cut_spec_is_refused_or_at_least_never_read_as_another_head(
    spec: Spec, data: st.DataObject
) -> None:
    raw = encode_spec(spec)
    head_end = len(raw) - len(_exec_block(raw))
    cut = data.draw(st.integers(0, head_end - 1))
    with pytest.raises((ValueError, IndexError)):
        decode_spec(raw[:cut])


_pid_records = st.builds(
    PidRecord,
    pid=st.integers(1, 2**22),
    start_ticks=_ns,
    started_ns=_ns,
    boottime_ns=_ns,
    shim_pid=st.integers(0, 2**22),
    input_pipe=_ns,
    boot_id=st.uuids().map(str),
)
_NUMBERS = {"exited": (0, 255), "signaled": (1, 64), "failed": (0, 133), "lost": (0, 0)}
_exit_records = st.one_of(
    [
        st.builds(
            ExitRecord,
            kind=st.just(kind),
            number=st.integers(*numbers),
            ended_ns=_ns,
            note=st.text("abc xyz", max_size=20).map(str.strip),
        )
        for kind, numbers in {
            "exited": (0, 255),
            "signaled": (1, 64),
            "failed": (0, 133),
            "lost": (0, 0),
        }.items()
    ]
)


@given(_pid_records, st.data())
def test_a_pid_record_is_whole_or_not_there(record: PidRecord, data: st.DataObject) -> None:
    raw = b"starting\n" + encode_pid(record)
    assert decode_pid(raw) == record
    assert decode_pid(raw[: data.draw(st.integers(0, len(raw) - 1))]) is None


@given(_exit_records)
def test_an_exit_record_comes_back_as_it_was(record: ExitRecord) -> None:
    assert decode_exit(encode_exit(record)) == record


@given(_pid_records, _exit_records, st.data())
def test_the_end_of_a_command_stands_behind_its_pid_whole_or_not(
    record: PidRecord, ended: ExitRecord, data: st.DataObject
) -> None:
    before = b"starting\n" + data.draw(st.sampled_from([b"", encode_pid(record)]))
    raw = before + encode_exit(ended)
    assert decode_end(raw) == ended
    assert decode_pid(raw) == (record if len(before) > 9 else None)
    assert decode_end(raw[: data.draw(st.integers(0, len(raw) - 1))]) is None


@given(
    st.binary(max_size=60).filter(
        lambda raw: raw.split(b" ")[0] not in {b"exited", b"signaled", b"failed", b"lost"}
    )
)
def test_bytes_that_are_no_exit_record_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode_exit(raw)


@given(st.integers(0, 255), st.integers(1, 64), _u64)
def test_a_wait_status_is_a_code_or_a_signal(code: int, number: int, ended_ns: int) -> None:
    assert exit_from_wait(code << 8, ended_ns) == ExitRecord(kind="exited", number=code, ended_ns=ended_ns)
    for core in (0, 0x80):
        assert exit_from_wait(number | core, ended_ns) == ExitRecord(
            kind="signaled", number=number, ended_ns=ended_ns
        )


@given(st.lists(_idx_records, max_size=20), st.binary(max_size=IDX.size - 1), st.integers(0, 5))
def test_idx_is_read_up_to_a_torn_tail_and_across_holes(
    records: list[IdxRecord], tail: bytes, hole: int
) -> None:
    raw = bytes(hole * IDX.size) + b"".join(record.encode() for record in records)
    assert list(decode_idx(raw + tail)) == records


def test_an_idx_record_divides_a_page() -> None:
    """Else a kill could tear one."""
    assert 4096 % IDX.size == 0


@given(
    st.builds(
        Doorbell,
        key=st.binary(min_size=16, max_size=16),
        out=_u64,
        err=_u64,
        pid=st.integers(0, 2**31 - 1),
        code=st.integers(-(2**31), 2**31 - 1),
        phase=st.integers(0, 255),
        cause=st.integers(0, 255),
        flags=st.integers(0, 2**16 - 1),
        descendants=st.integers(0, 2**32 - 1),
    )
)
def test_a_doorbell_comes_back_as_it_was(doorbell: Doorbell) -> None:
    packed = RECORD.pack(*astuple(doorbell))
    assert len(packed) == 48  # as every version reads it
    assert list(decode_doorbells(b"D" + packed)) == [doorbell]


@given(st.dictionaries(st.text(max_size=8), _json, max_size=4), st.binary(max_size=100))
def test_messages_come_back_with_their_bytes(message: dict[str, object], payload: bytes) -> None:
    decoded, bytes_behind = decode_message(encode_message(message, payload))
    assert decoded == message
    assert bytes_behind == payload


@given(st.binary(max_size=60))
def test_a_packet_is_a_message_or_refused(packet: bytes) -> None:
    with contextlib.suppress(ValueError):
        message, _ = decode_message(packet)
        assert isinstance(message, dict)
        assert packet[:1] == b"J"


def test_causes_have_the_same_order_everywhere() -> None:
    assert [code.name.lower() for code in CauseCode] == [cause.value for cause in Cause]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40),
    torn=st.integers(0, 27),
    data=st.data(),
)
def test_the_journal_tells_what_lives_whatever_its_last_line(
    tmp_path: Path, events: list[tuple[int, bool]], torn: int, data: st.DataObject
) -> None:
    ids = data.draw(st.lists(_ids, min_size=6, max_size=6, unique=True))
    path = tmp_path / "live"
    path.unlink(missing_ok=True)
    journal = Journal(str(path), [])
    expected: dict[str, None] = {}
    for number, begins in events:
        if begins:
            journal.begin(ids[number])
            expected.pop(ids[number], None)
            expected[ids[number]] = None
        else:
            journal.end(ids[number])
            expected.pop(ids[number], None)
    with path.open("ab") as file:  # a kill in the middle of a line
        file.write(f"-{ids[0]}\n".encode()[:torn])
    found = read_journal(str(path))
    assert sorted(found) == sorted(expected)
    Journal(str(path), found)
    assert sorted(read_journal(str(path))) == sorted(expected), "compaction changes nothing"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 60)), max_size=40),
    data=st.data(),
)
def test_a_line_that_a_full_disk_cut_short_spoils_no_other(
    tmp_path: Path, events: list[tuple[int, bool, int]], data: st.DataObject
) -> None:
    """A line of the journal is whole or counts for nothing, also where the disk took a part of the one before
    it.
    """
    ids = data.draw(st.lists(_ids, min_size=6, max_size=6, unique=True))
    path = tmp_path / "live"
    path.unlink(missing_ok=True)
    journal = Journal(str(path), [])
    expected: dict[str, None] = {}
    for number, begins, room in events:
        line = f"{'+' if begins else '-'}{ids[number]}\n"
        with _file_size_limit(path.stat().st_size + room):
            if begins:
                with contextlib.suppress(OSError):
                    journal.begin(ids[number])
            else:
                journal.end(ids[number])
        if not path.read_text().endswith(line):
            continue  # the disk did not take it
        if begins:
            expected[ids[number]] = None
        else:
            expected.pop(ids[number], None)
        if room % 2:  # another supervisor, which cannot write the journal anew
            with _file_size_limit(0):
                journal = Journal(str(path), read_journal(str(path)))
    assert sorted(read_journal(str(path))) == sorted(expected)


@pytest.mark.parametrize("content", ["", "\n", "+nonsense\n", "+\n-\n", "\x00\x00\n", "é\n"])
def test_a_damaged_journal_names_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "live"
    path.write_text(content)
    assert read_journal(str(path)) == []
    assert read_journal(str(tmp_path / "missing")) == []


@pytest.mark.parametrize("content", [None, "", "1 2 3", "1 2 3 4 5\n"])
def test_a_missing_or_torn_gaps_file_is_no_gap(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "gaps").write_text(content)
    assert read_gaps(str(tmp_path)) == ((0, 0), (0, 0))


def test_a_line_of_gaps_names_both_streams(tmp_path: Path) -> None:
    (tmp_path / "gaps").write_text("4096 8192 0 0\n")
    assert read_gaps(str(tmp_path)) == ((4096, 8192), (0, 0))
