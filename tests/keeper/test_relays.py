"""A pipe that brings very much is taken by way of a relay that the shim holds: exact, whoever dies, whatever
is full.
"""

import ctypes
import fcntl
import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from outlive.core.identity import ProcessId
from outlive.core.spec import Spec
from outlive.keeper.supervisor.clients import Doorbells
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream
from outlive.keeper.supervisor.output.flow import FlowLibrary
from outlive.keeper.supervisor.output.pump import BIG_PIPE_BYTES, Pump
from outlive.kernel.calls import unread_bytes
from outlive.kernel.disk import Reserve
from outlive.protocols.frames import decode_idx
from outlive.protocols.keeper import Flags
from tests.keeper.client import new_id, until
from tests.keeper.disks import fill, small_disk
from tests.keeper.house import House, sh
from tests.support.processes import Gate

_BLOCK = random.Random("relays").randbytes(1 << 20)


@pytest.fixture(name="block")
def _block(tmp_path: Path) -> Path:
    path = tmp_path / "block"
    path.write_bytes(_BLOCK)
    return path


def _pipes(pid: int) -> set[str]:
    """Return the pipes that a process has open, by what /proc calls them."""
    names = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            continue  # closed meanwhile
    return {name for name in names if name.startswith("pipe:")}


class _Flow:
    """A command that writes blocks until its gate opens; how many, it says on stderr."""

    def __init__(self, house: House, block: Path, gate: Gate, *, blocks: int = 0) -> None:
        """Start it; with `blocks` it waits for the gate only after so many."""
        self.house = house
        self._gate = gate
        goes_on = f"[ $n -lt {blocks} ]" if blocks else f"[ ! -e {gate.path} ]"
        self.process_id: ProcessId = house.start(
            *sh(
                f"n=0; while {goes_on}; do cat {block}; n=$((n+1)); sleep 0.01; done; {gate.wait}; echo "
                "$n >&2; exit 7"
            )
        )

    def shim(self) -> int:
        """Return the pid of whoever holds the command's descriptors beside the supervisor."""
        return self.house.shim_of(self.process_id)

    def wait_relay(self) -> None:
        """Wait until supervisor and shim both hold three pipes: of stdout, of stderr, and the relay (stdin is
        none).
        """
        shim = self.shim()
        until(lambda: len(_pipes(shim) & _pipes(self.house.supervisor())) == 3, "a relay")

    def check(self) -> None:
        """Let the command end; nothing may be missing or twice."""
        self._gate.open()
        self.house.client.wait_done(self.process_id)
        blocks = int(self.house.err(self.process_id))
        found = self.house.out(self.process_id)
        assert len(found) == blocks * len(_BLOCK)
        assert all(found[at : at + len(_BLOCK)] == _BLOCK for at in range(0, len(found), len(_BLOCK)))
        assert self.house.wire_code(self.process_id) == 7
        assert not self.house.done(self.process_id)["holder_lost"]


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_a_pipe_in_full_flow_gets_a_relay_which_goes_with_the_process(
    build_house: Callable[..., House], block: Path, gate: Gate
) -> None:
    house = build_house()
    house.wait_redundant()
    before = _pipes(house.supervisor())
    flow = _Flow(house, block, gate)
    flow.wait_relay()
    assert len(_pipes(house.supervisor()) - before) == 3
    shim = flow.shim()
    flow.check()
    until(lambda: not _pipes(house.supervisor()) - before, "the supervisor to let go of the pipes")
    until(lambda: len(_pipes(shim)) <= 1, "the shim to let go of the pipes")  # its own of signals


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_a_pipe_that_brings_less_gets_none(own_house: House, gate: Gate) -> None:
    own_house.wait_redundant()
    before = _pipes(own_house.supervisor())
    process_id = own_house.start(*sh(f"head -c 900000 /dev/zero; {gate.wait}"))
    own_house.wait_output(process_id, 900_000)
    assert len(_pipes(own_house.supervisor()) - before) == 2
    gate.open()
    own_house.client.wait_done(process_id)
    assert len(own_house.out(process_id)) == 900_000


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_nothing_is_lost_when_supervisor_and_shim_die_in_full_flow(
    build_house: Callable[..., House], block: Path, gate: Gate
) -> None:
    house = build_house()
    flow = _Flow(house, block, gate)
    flow.wait_relay()
    for _ in range(3):
        house.kill(house.supervisor())
        house.wait_redundant()
    house.kill_shim_of(flow.process_id)
    house.wait_redundant()
    for _ in range(3):
        house.kill(house.supervisor())
        house.wait_redundant()
    flow.check()


@pytest.mark.usefixtures("stays_stopped")
def test_a_shim_that_does_not_say_that_it_holds_the_relay_is_not_waited_for(
    build_house: Callable[..., House], block: Path, gate: Gate
) -> None:
    """As one from before there were relays. Nothing goes by a way that only the supervisor has."""
    filled = gate.path.with_name("filled")
    filled.touch()
    own_house = build_house(OUTLIVE_FAILPOINT=f"relay.filled@{filled}")
    begin = Gate(gate.path.with_name("begin"))
    process_id = own_house.start(
        *sh(f"{begin.wait}; for n in 1 2 3 4 5 6; do cat {block}; done; {gate.wait}")
    )
    shim = own_house.shim_of(process_id)
    os.kill(shim, signal.SIGSTOP)
    begin.open()
    assert own_house.wait_output(process_id, 6 << 20) == _BLOCK * 6
    assert filled.exists(), "no relay was used"
    own_house.kill(own_house.supervisor())
    os.kill(shim, signal.SIGCONT)
    own_house.wait_redundant()
    gate.open()
    own_house.client.wait_done(process_id)
    assert own_house.out(process_id) == _BLOCK * 6


@pytest.mark.thorough
@pytest.mark.root("only root may mount a small file system")
@pytest.mark.parametrize("kills", [0, 2])
def test_a_full_disk_in_full_flow_loses_nothing(tmp_path: Path, block: Path, gate: Gate, kills: int) -> None:
    """What the log had no room for waits in the relay, also for the next supervisor."""
    with small_disk(tmp_path / "disk", 64 << 20) as disk, House(disk / "state") as house:
        ballast = fill(disk, leave_bytes=10 << 20)
        flow = _Flow(house, block, gate, blocks=40)
        for turn in range(kills + 1):
            house.client.wait_bell(flow.process_id, lambda bell: bell.flags & Flags.STALLED, "a stall")
            flow.wait_relay()
            if turn < kills:
                house.kill(house.supervisor())
                house.client.bells.clear()
        ballast.unlink()
        flow.check()


class _Piped:
    """A pump, a stream from a real pipe, and a relay that holds what an earlier supervisor has left there."""

    def __init__(self, folder: Path, left: bytes, more: bytes, *, program: Path) -> None:
        self.errors: list[str] = []
        self.ended: list[ManagedProcess] = []
        self.loop = Loop(self.errors.append)
        with program.open("rb") as file:
            self.flow = FlowLibrary(file.fileno())
        self.pump = Pump(
            self.loop,
            Doorbells(self.loop),
            Reserve(str(folder)),
            self.flow,
            ended=self.ended.append,
            over_limit=lambda _stream: None,
        )
        self.kept = ManagedProcess(
            new_id(), str(folder), Spec(program="true", argv=("true",), env={}, cwd="/")
        )
        self.kept.idx = os.open(folder / "idx", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        log = os.open(folder / "out", os.O_WRONLY | os.O_CREAT)
        source, self.end = _big_pipe()
        relay = _big_pipe()
        self.kept.fds = dict(zip("rw", relay, strict=True))
        self.stream = Stream(self.kept, 0, source=source, log=log, relay=relay[1])
        self.kept.streams = [self.stream]
        os.write(relay[1], left)
        os.write(self.end, more)
        self._log = folder / "out"

    def turn(self) -> bytes:
        """Let everything happen that is due; returns the log. A busy machine makes few turns in a time."""
        over: list[int] = []
        for turn in range(15):
            self.loop.later(0.002, partial(over.append, turn))
            while len(over) <= turn:
                self.loop.turn()
        assert self.errors == []
        return self._log.read_bytes()

    def close(self) -> None:
        for fd in (self.stream.source, self.kept.idx, *self.kept.fds.values()):
            os.close(fd)
        self.stream.close_log()


def _big_pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, BIG_PIPE_BYTES)
    return reading, writing


_LEFT, _MORE = _BLOCK[:300_000], _BLOCK[300_000:300_100]


@pytest.fixture(name="piped", params=[1 << 20, 50_000], ids=["at-once", "little-by-little"])
def _piped(tmp_path: Path, request: pytest.FixtureRequest, hooked: Path) -> Iterator[_Piped]:
    """A log takes all that is there, or less: a file system may, one that is full does."""
    piped = _Piped(tmp_path, _LEFT, _MORE, program=hooked)
    piped.flow.library.set_hooks(None, ctypes.c_size_t(request.param))
    yield piped
    piped.close()


def test_what_is_in_a_relay_comes_first_and_its_run_has_a_record(piped: _Piped) -> None:
    piped.pump.add(piped.stream)
    assert piped.turn() == _LEFT + _MORE
    (record,) = decode_idx(Path(piped.kept.folder, "idx").read_bytes())
    assert (record.offset, record.stream) == (0, 0)


def test_what_is_in_a_relay_is_moved_although_no_event_tells_of_it(piped: _Piped) -> None:
    assert os.read(piped.stream.source, 1000) == _MORE
    piped.pump.add(piped.stream)
    assert piped.turn() == _LEFT


def test_a_stream_that_is_held_keeps_what_is_in_its_relay(piped: _Piped) -> None:
    piped.pump.add(piped.stream)
    piped.pump.hold(piped.stream)
    assert piped.turn() == b""
    piped.pump.add(piped.stream)
    assert piped.turn() == _LEFT + _MORE


@pytest.mark.parametrize("more", [_MORE, b""], ids=["both", "relay-only"])
def test_a_stream_whose_writers_are_gone_ends_after_its_relay(piped: _Piped, more: bytes) -> None:
    if not more:
        os.read(piped.stream.source, 1000)
    piped.pump.add(piped.stream)
    os.close(piped.end)
    assert piped.turn() == _LEFT + more
    assert not piped.stream.is_open
    assert piped.ended == [piped.kept]


def test_what_a_command_has_written_is_drained_from_relay_and_pipe(piped: _Piped) -> None:
    assert piped.pump.drain(piped.kept)
    assert Path(piped.kept.folder, "out").read_bytes() == _LEFT + _MORE
    assert piped.stream.is_open
    assert not unread_bytes(piped.stream.source)


def test_a_relay_of_a_stream_that_is_not_moved_yet_changes_no_other_one(piped: _Piped) -> None:
    """A terminal's in a container: what says that it is held may be any program inside."""
    process = ManagedProcess(
        new_id(), "/", Spec(program="true", argv=("true",), env={}, cwd="/", stdio="pty")
    )
    process.fds["w"] = piped.end
    process.streams = [Stream(process, 0, source=-1, log=-1)]
    piped.pump.add(piped.stream)
    piped.pump.use_relay(process)
    assert piped.turn() == _LEFT + _MORE
