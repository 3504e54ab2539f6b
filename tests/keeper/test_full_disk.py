"""A full disk blocks the process, loses nothing, and goes on byte-exact when there is space again."""

import contextlib
import errno
import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlive.keeper.supervisor.starts.launcher import failed_start
from outlive.kernel.state_files import read_end
from outlive.protocols.keeper import Flags, encode_spec
from tests.faults.plans import Plan
from tests.keeper.client import KeeperRefused, until
from tests.keeper.disks import fill, read_only, small_disk
from tests.keeper.house import House, sh
from tests.support.processes import is_alive

pytestmark = pytest.mark.root("only root may mount a small file system")

_DISK_BYTES = 6 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[House]:
    """A keeper on a file system of 6 MiB."""
    with small_disk(tmp_path / "small", _DISK_BYTES) as folder, House(folder / "state") as house:
        yield house


def _fill(house: House, *, leave_bytes: int) -> Path:
    return fill(house.state_dir.parent, leave_bytes=leave_bytes)


def _plan(*, size: int, seed: str = "full disk") -> Plan:
    return Plan(
        seed=seed,
        kind="full",
        stdio="pipes",
        out=size,
        err=0,
        is_text=False,
        piece=30_000,
        pause_s=0.0,
        end=7,
    )


def _check(house: House, process_id: str, plan: Plan) -> None:
    size, digest = plan.digest("out")
    found = house.out(process_id)
    assert len(found) == size
    assert hashlib.sha256(found).hexdigest() == digest
    assert house.wire_code(process_id) == plan.end
    assert house.done(process_id)["out"] == size


def test_output_goes_on_byte_exact_when_there_is_space_again(small: House) -> None:
    plan = _plan(size=3 << 20)
    ballast = _fill(small, leave_bytes=1 << 20)
    process_id = small.start(*plan.argv)
    small.client.wait_bell(process_id, lambda bell: bell.flags & Flags.STALLED, "a stall")
    ballast.unlink()
    small.client.wait_bell(process_id, lambda bell: not bell.flags & Flags.STALLED, "the end of the stall")
    small.client.wait_done(process_id)
    _check(small, process_id, plan)


@pytest.mark.thorough
def test_the_supervisor_may_die_while_the_disk_is_full(small: House) -> None:
    plan = _plan(size=3 << 20)
    ballast = _fill(small, leave_bytes=1 << 20)
    process_id = small.start(*plan.argv)
    small.client.wait_bell(process_id, lambda bell: bell.flags & Flags.STALLED, "a stall")
    for _ in range(3):
        small.kill(small.supervisor())
        small.client.bells.clear()
        small.client.wait_bell(process_id, lambda bell: bell.flags & Flags.STALLED, "the stall again")
    ballast.unlink()
    small.client.wait_done(process_id)
    _check(small, process_id, plan)


def test_a_command_killed_while_stalled_is_completed_when_there_is_space(small: House) -> None:
    """Its last output, exit record and completion mark wait for space; the zombie keeps the exit code."""
    ballast = _fill(small, leave_bytes=1 << 20)
    process_id = small.start("/usr/bin/yes")
    small.client.wait_bell(process_id, lambda bell: bell.flags & Flags.STALLED, "a stall")
    small.client.ask("stop", id=process_id, cause=1, grace_s=20.0)
    pid = small.pid(process_id)
    until(lambda: not is_alive(pid), "the end of the command")
    before = len(small.out(process_id))
    ballast.unlink()
    bell = small.client.wait_done(process_id)
    assert bell.out > before, "what was in the pipe came when there was space"
    assert set(small.out(process_id)) <= set(b"y\n")
    assert small.wire_code(process_id) == -15


def test_a_start_on_a_full_disk_is_refused_or_carried_out(small: House) -> None:
    small.run(*sh("echo warm"))
    ballast = _fill(small, leave_bytes=0)
    process_id, spec = small.spec("/bin/true", env={"BIG": "x" * 60_000})
    with pytest.raises(KeeperRefused, match="disk_full"):
        small.client.start(spec, process_id=process_id)
    assert not small.folder(process_id).exists()
    ballast.unlink()
    small.client.start(spec, process_id=process_id)
    small.client.wait_done(process_id)
    assert small.wire_code(process_id) == 0


def _take_inodes(house: House) -> list[Path]:
    inodes = [house.state_dir / f"inode{number}" for number in range(2000)]
    for path in inodes:
        try:
            path.touch()
        except OSError:
            break
    return inodes


def test_an_exit_code_needs_no_room(small: House) -> None:
    """It goes into the page that the pid has taken."""
    gate = small.state_dir.parent.with_name("gate")
    process_id = small.start(*sh(f"until [ -e {gate} ]; do sleep 0.01; done; exit 77"))
    small.wait_redundant()
    ballast = _fill(small, leave_bytes=0)
    inodes = _take_inodes(small)
    gate.touch()
    try:
        until(lambda: read_end(str(small.folder(process_id))), "the record")
    finally:
        for path in (ballast, *inodes):
            path.unlink(missing_ok=True)
    small.client.wait_done(process_id)
    assert small.wire_code(process_id) == 77


def test_the_zombie_keeps_an_exit_code_that_cannot_be_written(small: House) -> None:
    """It is the durable copy until the record is there."""
    gate = small.state_dir.parent.with_name("gate")
    process_id = small.start(*sh(f"until [ -e {gate} ]; do sleep 0.01; done; exit 77"))
    small.wait_redundant()
    pid = small.pid(process_id)
    (small.folder(process_id) / "pid").unlink()  # else its page has room
    ballast = _fill(small, leave_bytes=0)
    inodes = _take_inodes(small)
    gate.touch()
    until(lambda: Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z", "the zombie")
    small.kill(small.supervisor())
    for path in inodes:
        path.unlink(missing_ok=True)
    ballast.unlink()
    small.client.wait_done(process_id)
    assert small.wire_code(process_id) == 77


def test_starts_go_on_when_inodes_are_back(small: House) -> None:
    """A supervisor that began without any, and could not make the folder for its prepared ones."""
    small.run(*sh("echo warm"))
    inodes = _take_inodes(small)
    small.kill(small.supervisor())
    with pytest.raises(KeeperRefused, match="disk_full"):
        small.start("/bin/true")
    for path in inodes:
        path.unlink(missing_ok=True)
    for _ in range(3):
        assert small.run(*sh("exit 3"))[0] == 3


def _use_up_prepared(house: House) -> None:
    """Start until a folder would have to be made."""
    with contextlib.suppress(KeeperRefused):
        for _ in range(200):
            house.run("/bin/true")


def test_half_made_folders_take_nothing(small: House) -> None:
    """What a prepared folder lacks an inode for is removed: neither a file nor a descriptor is left of it."""
    small.run(*sh("echo warm"))
    inodes = _take_inodes(small)
    _use_up_prepared(small)
    supervisor, folder = small.supervisor(), small.state_dir
    for path in [path for path in inodes if path.exists()][
        :4
    ]:  # a folder, its socket and its logs, and no more
        path.unlink()

    def held() -> tuple[int, int]:
        return os.statvfs(folder).f_favail, len(os.listdir(f"/proc/{supervisor}/fd"))

    before = held()
    for _ in range(20):
        with pytest.raises(KeeperRefused, match="disk_full"):
            small.start("/bin/true")
    until(
        lambda: held() == before, "everything to be given back"
    )  # the kernel frees the last inodes a moment later
    for path in inodes:
        path.unlink(missing_ok=True)
    assert small.run(*sh("exit 3"))[0] == 3


@pytest.mark.usefixtures("stays_stopped")
@pytest.mark.parametrize("lack", ["read_only", "disk_full"])
def test_a_start_that_the_disk_refuses_halfway_names_the_disk(tmp_path: Path, lack: str) -> None:
    """The folder is in place when the file system takes nothing more: its shim cannot write that it
    begins.
    """
    with (
        small_disk(tmp_path / "small", _DISK_BYTES) as folder,
        House(folder / "state") as house,
        ExitStack() as spell,
    ):
        house.run(*sh("echo warm"))
        house.wait_redundant()
        makers = [*house.shims(), house.guardian()]
        for pid in makers:
            os.kill(pid, signal.SIGSTOP)
        process_id, spec = house.spec("/bin/true")
        raw = encode_spec(spec)
        number = house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw))
        until(lambda: house.folder(process_id).exists(), "the folder")
        if lack == "read_only":
            spell.enter_context(read_only(folder))
        else:
            spell.callback(_fill(house, leave_bytes=0).unlink)
        for pid in makers:
            os.kill(pid, signal.SIGCONT)
        reply = house.client.reply(number)
        assert (reply["error"], "cannot be recorded" in str(reply["message"])) == (lack, True)
        again = house.client.reply(
            house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw))
        )
        assert again["error"] == lack, "it is known before its record can be written"
        spell.close()
        ended = until(lambda: read_end(str(house.folder(process_id))), "its record, which was owed")
        assert ended.kind == "failed"
        again = house.client.reply(
            house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw))
        )
        assert again["error"] == lack, "it is remembered as what it was"


@pytest.mark.parametrize(
    ("place", "number", "slug"),
    [
        ("pid", errno.EROFS, "read_only"),
        ("record", errno.EROFS, "read_only"),
        ("pid", errno.EDQUOT, "disk_full"),
        ("pid", errno.EIO, "start_failed"),
        ("program", errno.EROFS, "start_failed"),
        ("cwd", errno.EROFS, "cwd_missing"),
    ],
)
def test_only_a_file_of_the_state_folder_names_the_disk(place: str, number: int, slug: str) -> None:
    assert failed_start(number, place)["error"] == slug
