"""A damaged file of a process's folder, or of the state folder, is an absent one.

The keeper starts, says what is true, and runs what is new.
"""

import os
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.lifecycle import ENDED
from outlive.kernel.processes import this_boot
from outlive.kernel.state_files import Journal, read_end
from outlive.protocols.frames import (
    IDX,
    ExitRecord,
    decode_end,
    decode_exit,
    decode_gaps,
    decode_idx,
    decode_pid,
    decoded,
    encode_exit,
    pid_line,
)
from outlive.protocols.keeper import (
    decode_done,
    decode_stop,
    decode_unbound,
    encode_spec,
    stored_spec,
    to_json,
)
from outlive.store.folder import read_folder
from tests.keeper.client import new_id, until
from tests.keeper.house import House, sh
from tests.support.processes import Gate, end, is_alive

_OTHER_BOOT = str(uuid.UUID(int=1))
_AT_NS = 1_700_000_000_000_000_000
_STOP = to_json({"cause": 1, "grace_s": 10.0, "boottime_ns": 5, "note": "by a test"}).encode()
_DONE = to_json(
    {"out": 6, "err": 0, "cause": 1, "note": "", "at_ns": 7, "boot_id": _OTHER_BOOT, "boottime_ns": 5}
    | {"descendants": 0, "gaps": False, "holder_lost": False, "closed": True}
).encode()
_PID = b"starting\n" + pid_line(4242, 77, _AT_NS, 5, 4241, 0, _OTHER_BOOT.encode())
_EXIT = encode_exit(ExitRecord(kind="exited", number=7, ended_ns=_AT_NS + 1))


def _records(house: House) -> dict[str, bytes]:
    """Return every file that a process of an earlier boot may have, whole."""
    spec = house.spec(*sh("echo hello; exit 7"))[1]
    return {
        "spec": encode_spec(spec),
        "script": b"echo hello\n",
        "out": b"hello\n",
        "err": b"",
        "idx": IDX.pack(_AT_NS, 0, 0, 0),
        "pid": _PID,
        "exit": _EXIT,
        "done": _DONE,
        "stop": _STOP,
        "paused": b"sigstop\n",
        "gaps": b"0 4096 0 0\n",
        "unbound": b"4096\n",
        "closed": to_json({"out": 6, "err": 0, "at_ns": 7}).encode(),
        "init": b"4243 78",
        "sock": b"",
    }


def _damages(whole: bytes) -> dict[str, Callable[[Path], object]]:
    """Return what may become of a file, by name."""

    def written(content: bytes) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(content)

    def instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
        def damage(path: Path) -> None:
            path.unlink()
            make(path)

        return damage

    flipped = {
        f"bit {bit} of byte {at}": written(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        for at in range(0, len(whole), max(1, len(whole) // 8))
        for bit in (0, 6)
    }
    lengths = {len(whole) // 3, len(whole) // 2, max(0, len(whole) - 1)} - {0}
    return {
        "emptied": written(b""),
        "zeroed": written(bytes(len(whole))),
        "missing": instead(lambda _path: None),
        "a folder": instead(lambda path: (path / "within").mkdir(parents=True)),
        "a pipe": instead(os.mkfifo),
        "a link": instead(lambda path: path.symlink_to("/proc/version")),
        "a link to nothing": instead(lambda path: path.symlink_to("nothing")),
        **{f"cut at {length}": written(whole[:length]) for length in lengths},
        **flipped,
    }


def _folder(house: House, records: dict[str, bytes], *, without: set[str]) -> Path:
    folder = house.folder(new_id())
    folder.mkdir(parents=True)
    for name, content in records.items():
        if name not in without:
            (folder / name).write_bytes(content)
    return folder


@pytest.mark.promise("F.power")
@pytest.mark.parametrize("state", ["running", "stopping", "ended", "done", "not given"])
def test_after_a_reboot_what_a_damaged_folder_held_has_ended(
    build_house: Callable[..., House], tmp_path: Path, state: str
) -> None:
    """Nothing of the dead boot is shown as running, started again, or keeps the keeper from starting."""
    without = {
        "running": {"stop", "exit", "done", "closed", "paused"},
        "stopping": {"exit", "done", "closed"},
        "ended": {"done", "closed"},
        "done": set[str](),
        "not given": {"pid", "stop", "exit", "done", "closed", "paused", "gaps", "unbound", "init"},
    }[state]
    house = build_house()
    house.end()
    ran = tmp_path / "ran"
    records = _records(house) | {"spec": encode_spec(house.spec(*sh(f"echo x >> {ran}"))[1])}
    folders = {}
    for name in records.keys() - without:
        for how, damage in _damages(records[name]).items():
            folder = _folder(house, records, without=without)
            damage(folder / name)
            folders[f"{name}: {how}"] = folder
    journal = Journal(house.layout.live, [], boot=_OTHER_BOOT)
    for folder in folders.values():
        journal.begin(folder.name)
    house.client.close()
    house.client.connect()
    assert house.run(*sh("echo on; exit 9")) == (9, b"on\n", b"")
    until(lambda: not house.status()["processes"], "all that is dead to be called so")
    for what, folder in folders.items():
        ended = read_end(str(folder))
        assert ended is None or ended.kind in {"exited", "lost"}, what
        found = read_folder(str(folder), folder.name, is_live=False)  # type: ignore[arg-type] # an id
        assert found is None or found[0].record.state in ENDED, what
    assert not ran.exists()


_LIVING = ("spec", "idx", "out", "pid", "stop", "gaps", "unbound", "paused", "done", "exit", "init", "sock")


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["emptied", "zeroed", "missing", "a folder", "a pipe", "a link"])
def test_what_lives_is_told_and_ended_whichever_of_its_files_is_damaged(
    own_house: House, gate: Gate, how: str
) -> None:
    """As in a state folder that a person, or a bad disk, has spoilt while no supervisor ran."""
    started = {name: own_house.start(*sh(f"{gate.wait}; exit 21")) for name in _LIVING}
    pids = {name: own_house.pid(process_id) for name, process_id in started.items()}
    own_house.wait_redundant()
    supervisor, guardian = own_house.supervisor(), own_house.guardian()
    for pid in (guardian, supervisor):
        end(pid)
    for name, process_id in started.items():
        path = own_house.folder(process_id) / name
        if not path.exists() and name != "err":
            path.write_bytes({"stop": _STOP, "done": _DONE, "exit": _EXIT}.get(name, b"x"))
        if name == "sock":
            continue  # its shim cannot be found any more, and is left to itself
        _damages(path.read_bytes())[how](path)
    own_house.client.bells.clear()
    own_house.client.connect()
    assert own_house.run(*sh("exit 9"))[0] == 9
    for name, process_id in started.items():
        if is_alive(pids[name]):
            own_house.client.wait_bell(process_id, lambda bell: bell.pid, f"{name}'s process to be told")
    gate.open()
    for name, process_id in started.items():
        until(lambda name=name: not is_alive(pids[name]), f"the end of {name}'s command")  # type: ignore[misc]
        until(lambda one=process_id: read_end(str(own_house.folder(one))), f"the record of {name}'s end")  # type: ignore[misc]


@pytest.mark.parametrize("how", ["emptied", "zeroed", "missing", "a folder", "a pipe", "a link"])
def test_what_lives_is_found_without_the_journal(own_house: House, gate: Gate, how: str) -> None:
    process_id = own_house.start(*sh(f"{gate.wait}; exit 21"))
    over = own_house.start(*sh("exit 3"))
    own_house.client.wait_done(over)
    for pid in (own_house.guardian(), own_house.supervisor()):
        end(pid)
    live = Path(own_house.layout.live)
    _damages(live.read_bytes())[how](live)
    own_house.client.bells.clear()
    own_house.client.connect()
    own_house.client.wait_bell(process_id, lambda bell: bell.pid, "it to be told")
    assert own_house.status()["processes"] == 1
    gate.open()
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == 21


def test_a_start_that_no_shim_got_is_made_again_in_the_same_boot_only(
    build_house: Callable[..., House], tmp_path: Path
) -> None:
    for boot, lines in ((this_boot(), "x\n"), (_OTHER_BOOT, "")):
        house = build_house()
        house.end()
        ran = tmp_path / boot
        ran.touch()
        spec = encode_spec(house.spec(*sh(f"echo x >> {ran}"))[1])
        folder = _folder(house, {"spec": spec, "pid": b"", "out": b"", "idx": b""}, without=set())
        Journal(house.layout.live, [folder.name], boot=boot)
        house.client.close()
        house.client.connect()
        until(lambda folder=folder: read_end(str(folder)), "its end")  # type: ignore[misc] # a bound folder
        assert ran.read_text() == lines


_DECODERS = (
    decode_exit,
    decode_gaps,
    decode_stop,
    decode_done,
    decode_unbound,
    decode_pid,
    decode_end,
    stored_spec,
    lambda raw: [*decode_idx(raw)],
)
_SPECIMENS = (_EXIT, b"0 4096 0 0\n", _STOP, _DONE, b"4096\n", _PID, _PID + _EXIT, IDX.pack(1, 0, 0, 0))


def _changed(raw: bytes, changes: list[tuple[int, int]], length: int) -> bytes:
    changed = bytearray(raw)
    for at, bit in changes:
        changed[at % len(raw)] ^= 1 << bit
    return bytes(changed[: length % (len(raw) + 1)])


_damaged = st.one_of(
    st.binary(max_size=200),
    st.builds(
        _changed,
        st.sampled_from(_SPECIMENS),
        st.lists(st.tuples(st.integers(0, 300), st.integers(0, 7)), max_size=3),
        st.integers(0, 300),
    ),
    st.integers(1000, 60_000).map(lambda depth: b"[" * depth),
)


@given(_damaged)
def test_no_bytes_are_more_than_a_record_or_none(raw: bytes) -> None:
    for decode in _DECODERS:
        decoded(raw, decode)
    record = decode_pid(raw)
    assert record is None or record.pid > 0
    done = decoded(raw, decode_done)
    assert done is None or 0 <= done.cause < 8
