"""A kill at every step of start, pump, exit, stop, orphaning and recovery: output byte-exact, exit codes
exact.

The names are read from the keeper's source, so that a new failpoint is tested from its first day.
"""

import functools
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Unpack

import pytest

import outlive.keeper
from outlive.core.identity import ProcessId, id_to_bytes
from outlive.discovery.runner_build import LIBRARY_SOURCES, runner_sources
from outlive.protocols.keeper import CauseCode
from tests.extensions.docker.contained.house import ContainedHouse
from tests.keeper.client import KeeperRefused, until
from tests.keeper.house import House, Options, sh

pytestmark = pytest.mark.thorough

_SOURCE = Path(outlive.keeper.__file__).parent
_NOT_CONTAINED = ("shim.", "orphan.", "guardian.", "start.given", "relay.", "identity.")
_FOUND = sorted(
    {
        name
        for path in (*_SOURCE.rglob("*.py"), *runner_sources(), *LIBRARY_SOURCES)
        for name in re.findall(r'hit\((?:flow, )?"([a-z_.]+)"\)', path.read_text())
    }
)
# identity.*: met by copies of a folder only (tests/keeper/test_folder_identity.py kills there).
_ELSEWHERE = ("container.", "identity.")
NAMES = [name for name in _FOUND if not name.startswith(_ELSEWHERE)]
# The supervisor's own: it meets them for commands that a runner has started, too, and a runner is no shim.
CONTAINED = [name for name in _FOUND if not name.startswith(_NOT_CONTAINED)]
_OLDER_KERNEL = {"OUTLIVE_DEGRADE": "pidfd_info"}
# What happens only to a stream in full flow.
_IN_FULL_FLOW = ("relay.", "shim.kept")
# A kill here leaves nobody who knows whether the command ran: that is said, never guessed.
_MAY_BE_LOST = {"shim.starting"}


class Armed:
    """A keeper with one failpoint, armed by creating the token file, and what its commands must give."""

    def __init__(self, house: House, token: Path, *, may_be_lost: bool) -> None:
        self.house = house
        self.token = token
        self.may_be_lost = may_be_lost
        self.lost: list[ProcessId] = []
        self.expected: dict[ProcessId, tuple[int, bytes, bytes]] = {}

    def arm(self) -> None:
        self.token.touch()

    def start(
        self, line: str, code: int, out: bytes = b"", err: bytes = b"", **options: Unpack[Options]
    ) -> ProcessId:
        process_id, spec = self.house.spec(*sh(line), **options)
        try:
            self.house.client.start(spec, process_id=process_id)
        except KeeperRefused as refusal:
            if not self.may_be_lost or "not known" not in str(refusal):
                raise
            self.lost.append(process_id)
        else:
            self.expected[process_id] = (code, out, err)
        return process_id

    def start_all_kinds(self) -> None:
        self.start("exit 0", 0)
        self.start("printf '%s' abc; exit 7", 7, b"abc")
        self.start("echo out; echo err >&2; kill -KILL $$", -9, b"out\n", b"err\n")
        self.start("echo on a terminal; exit 3", 3, b"on a terminal\r\n", stdio="pty")

    def check(self) -> None:
        house = self.house
        for process_id, (code, out, err) in self.expected.items():
            house.client.wait_done(process_id)
            assert house.out(process_id) == out
            assert house.err(process_id) == err
            assert house.wire_code(process_id) == code
            assert house.client.completions[id_to_bytes(process_id)] == 1
            done = house.done(process_id)
            assert (done["out"], done["err"]) == (len(out), len(err))
        assert len(self.lost) == self.may_be_lost
        assert all(house.exit_record(process_id).kind == "lost" for process_id in self.lost)
        assert house.client.setbacks == []
        assert house.client.vanished == []
        until(lambda: house.status()["processes"] == 0, "the keeper to let go of everything")
        assert not self.token.exists(), "the failpoint was never reached"


@contextmanager
def _armed(
    tmp_path: Path, name: str, env: dict[str, str], house: Callable[..., House] = House
) -> Iterator[Armed]:
    token = tmp_path / "token"
    with house(tmp_path / "state", env={"OUTLIVE_FAILPOINT": f"{name}@{token}", **env}) as one:
        one.wait_redundant()  # the first forks are no part of the scenarios
        yield Armed(one, token, may_be_lost=name in _MAY_BE_LOST)


def _during_start_and_exit(armed: Armed) -> None:
    armed.arm()
    armed.start_all_kinds()


def _during_many_starts(armed: Armed) -> None:
    """More commands at a time than there are idle shims."""
    gate = armed.token.with_name("gate")
    armed.arm()
    for number in range(12):
        armed.start(
            f"until [ -e {gate} ]; do sleep 0.01; done; echo {number}; exit {number}",
            number,
            b"%d\n" % number,
        )
    gate.touch()


def _during_stop(armed: Armed) -> None:
    process_id = armed.start(
        "exec 2>/dev/null; trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done",
        5,
        b"up\nbye\n",
    )
    house = armed.house
    house.wait_output(process_id, 3)
    armed.arm()
    with suppress(KeeperRefused):  # it had ended already when the next supervisor was asked again
        house.client.ask_surely("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=20.0)


def _after_a_kill_of(victim: str) -> Callable[[Armed], None]:
    def scenario(armed: Armed) -> None:
        house = armed.house
        gate = armed.token.with_name("gate")
        wait = f"echo early; echo more >&2; until [ -e {gate} ]; do sleep 0.01; done; echo late; exit 9"
        process_id = armed.start(wait, 9, b"early\nlate\n", b"more\n")
        terminal = armed.start(wait, 9, b"early\r\nmore\r\nlate\r\n", stdio="pty")
        for each in (process_id, terminal):
            house.wait_output(each, 6)
        house.wait_redundant()
        armed.arm()
        if victim == "shim":
            house.kill_shim_of(process_id)
        else:
            house.kill(house.supervisor())
        house.wait_redundant()
        gate.touch()

    return scenario


def _in_full_flow(armed: Armed) -> None:
    """Blocks come until the kill has happened.

    What was written is known from the number of them, on stderr.
    """
    block = random.Random("relays").randbytes(1 << 20)
    path = armed.token.with_name("block")
    path.write_bytes(block)
    armed.arm()
    process_id = armed.start(
        f"n=0; while [ -e {armed.token} ] || [ $n -lt 20 ]; do cat {path}; n=$((n+1)); [ $n -lt 500 ] || "
        "break; done; echo $n >&2; exit 6",
        6,
    )
    armed.house.client.wait_done(process_id)
    said = armed.house.err(process_id)
    armed.expected[process_id] = (6, block * int(said), said)


def _scenario(name: str) -> Callable[[Armed], None]:
    part, _, _ = name.partition(".")
    if name == "guardian.fork":
        return _during_many_starts
    if name.startswith(_IN_FULL_FLOW):
        return _in_full_flow
    if part == "stop":
        return _during_stop
    if part == "orphan":
        return _after_a_kill_of("shim")
    if part == "recovery" or name == "guardian.respawn":
        return _after_a_kill_of("supervisor")
    return _during_start_and_exit


def _cases() -> Iterator[object]:
    """Every failpoint; as on an older kernel, too, which matters every day only where a shim dies."""
    for name in NAMES:
        yield pytest.param(name, {}, id=name)
        marks = [] if name.startswith(("shim.", "orphan.")) else [pytest.mark.slow]
        yield pytest.param(name, _OLDER_KERNEL, id=f"{name}-older-kernel", marks=marks)


@pytest.mark.parametrize(("name", "env"), list(_cases()))
def test_a_kill_at_this_instant_loses_nothing(name: str, env: dict[str, str], tmp_path: Path) -> None:
    with _armed(tmp_path, name, env) as armed:
        _scenario(name)(armed)
        armed.check()


@pytest.mark.parametrize("env", [{}, _OLDER_KERNEL], ids=["kernel", "older-kernel"])
@pytest.mark.parametrize("name", CONTAINED)
def test_a_kill_at_this_instant_loses_nothing_that_a_runner_started(
    name: str, env: dict[str, str], tmp_path: Path, binary: Path
) -> None:
    """As in a container, where a minder plays the shim's part."""
    with _armed(tmp_path, name, env, functools.partial(ContainedHouse, runner=binary)) as armed:
        _scenario(name)(armed)
        armed.check()
