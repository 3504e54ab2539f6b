"""Which kind of shim serves whom: a program where there is one, forks of the guardian for steps and everywhere else."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.backends.tree_inspection import observe_trees
from outlive.core.layout import Layout
from outlive.keeper.common import sockets
from outlive.keeper.common.lock_proof import open_pid_lock, take_pid_lock
from outlive.keeper.common.locks import take_lock
from outlive.keeper.common.spawn import SHIM_VARIABLE, keeper_argv, keeper_environment, spawn_detached
from tests.keeper.client import until
from tests.keeper.house import House, sh, shim_program
from tests.support.processes import Gate, Marker, end, is_alive

_STEPS = ("no_new_privileges",)
_PROGRAM, _FORK = "program", "fork"


@pytest.fixture(autouse=True)
def program() -> str:
    """The program, where it can be compiled."""
    if shim_program() == "off":
        pytest.skip("no shim can be compiled here")
    return shim_program()


def _kind(pid: int) -> str:
    return _PROGRAM if Path(f"/proc/{pid}/comm").read_text() == "outlive-shim\n" else _FORK


def _kinds(house: House) -> set[str]:
    house.wait_redundant()
    return {_kind(pid) for pid in house.shims()}


@pytest.mark.thorough
def test_plain_commands_get_the_program_and_those_with_steps_a_fork(own_house: House, gate: Gate) -> None:
    assert _kinds(own_house) == {_PROGRAM}
    plain = own_house.start(*sh(f"{gate.wait}; exit 3"))
    assert _kind(own_house.shim_of(plain)) == _PROGRAM
    bounded = [own_house.start(*sh(f"{gate.wait}; exit 4"), confinement=_STEPS) for _ in range(20)]
    assert {_kind(own_house.shim_of(one)) for one in bounded} == {_FORK}
    assert _kinds(own_house) == {_PROGRAM, _FORK}
    status = Path(f"/proc/{own_house.pid(bounded[0])}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    # A supervisor that does not know of which kind a shim is gives it no steps.
    own_house.kill(own_house.supervisor())
    gate.open()
    for one in (plain, *bounded):
        own_house.client.wait_done(one)
    assert own_house.wire_code(plain) == 3
    assert {own_house.wire_code(one) for one in bounded} == {4}
    for _ in range(10):
        assert own_house.run(*sh("exit 5"), confinement=_STEPS)[0] == 5
        assert own_house.run(*sh("exit 6"))[0] == 6


def test_many_of_both_kinds_at_once_are_all_served(own_house: House) -> None:
    started = {}
    for number in range(60):
        steps = _STEPS if number % 3 == 0 else None
        started[own_house.start(*sh(f"echo {number}; exit {number}"), confinement=steps)] = number
    for process_id, number in started.items():
        own_house.client.wait_done(process_id)
        assert (own_house.wire_code(process_id), own_house.out(process_id)) == (number, b"%d\n" % number)


@pytest.mark.parametrize("steps", [None, _STEPS])
def test_either_kind_holds_for_a_shim_that_died(own_house: House, gate: Gate, steps: tuple[str, ...]) -> None:
    process_id = own_house.start(*sh(f"echo early; {gate.wait}; echo late; exit 7"), confinement=steps)
    own_house.wait_output(process_id, 6)
    own_house.kill_shim_of(process_id)
    own_house.wait_redundant()
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    gate.open()
    own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), own_house.out(process_id)) == (7, b"early\nlate\n")
    assert not own_house.done(process_id)["holder_lost"]


def test_without_the_program_all_are_forks(build_house: Callable[..., House]) -> None:
    house = build_house(**{SHIM_VARIABLE: "off"})
    assert house.run(*sh("exit 3"))[0] == 3
    assert house.run(*sh("exit 4"), confinement=_STEPS)[0] == 4
    assert _kinds(house) == {_FORK}
    assert "no shim here" not in house.log()


@pytest.fixture(params=["missing", "not-executable", "another-machines", "cannot-begin", "crashes"])
def useless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path that no shim can be started from."""
    path = tmp_path / "useless"
    if request.param == "missing":
        return path
    content = {"cannot-begin": "#!/bin/sh\nexit 1\n", "crashes": "#!/bin/sh\nkill -SEGV $$\n"}
    path.write_text(content.get(request.param, "\x7fELF\x02\x01\x01 of no machine"))
    path.chmod(0o600 if request.param == "not-executable" else 0o700)
    return path


def test_a_program_that_is_none_is_said_once_and_forks_do(
    build_house: Callable[..., House], useless: Path
) -> None:
    house = build_house(**{SHIM_VARIABLE: str(useless)})
    started = [house.start(*sh(f"exit {number}")) for number in range(40)]
    for number, process_id in enumerate(started):
        house.client.wait_done(process_id)
        assert house.wire_code(process_id) == number
    assert house.run(*sh("exit 4"), confinement=_STEPS)[0] == 4
    assert _kinds(house) == {_FORK}
    assert house.log().count(f"{useless} is no shim here") == 1


@pytest.mark.parametrize("setting", [None, "off"])
def test_what_a_command_has_left_is_found_below_either_kind(
    build_house: Callable[..., House], setting: str | None, marker: Marker
) -> None:
    house = build_house(**({} if setting is None else {SHIM_VARIABLE: setting}))
    process_id = house.start(*sh(f"(setsid {marker.sleep} &); exit 3"))
    house.client.wait_done(process_id)
    left = until(marker.pids, "what it has left")
    (seen,) = observe_trees([str(house.folder(process_id))], has_stdin=False)
    assert list(seen.pids) == left
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    until(lambda: not marker.pids(), "its end")


def test_a_shim_that_is_killed_says_nothing_about_the_program(own_house: House) -> None:
    for _ in range(3):
        own_house.wait_redundant()
        own_house.kill(*own_house.shims())
    assert _kinds(own_house) == {_PROGRAM}
    assert "no shim here" not in own_house.log()


@pytest.mark.thorough
def test_supervisor_and_guardian_tell_each_other_which_program(own_house: House) -> None:
    for role in ("supervisor", "guardian", "supervisor"):
        own_house.kill(getattr(own_house, role)())
        own_house.wait_redundant()
        own_house.kill(*own_house.shims())
        assert _kinds(own_house) == {_PROGRAM}


def _connected(path: str) -> socket.socket | None:
    try:
        return sockets.connect_unix(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return None


@contextmanager
def _guardian(state_dir: Path, program: str) -> Iterator[socket.socket]:
    """Yield the supervisor's end of a guardian's socket: the test holds the supervisor's locks."""
    state_dir.mkdir(mode=0o700)
    layout = Layout(str(state_dir))
    lock = take_lock(layout.supervisor_lock)
    assert lock is not None
    pid_lock = open_pid_lock(layout.supervisor_pid)
    assert take_pid_lock(pid_lock)
    env = keeper_environment("guardian") | {SHIM_VARIABLE: program}
    pid = spawn_detached(keeper_argv("guardian", layout.root), env)
    try:
        with until(lambda: _connected(layout.guardian_socket), "the guardian to listen") as link:
            link.settimeout(20)
            yield link
    finally:
        end(pid)
        os.waitpid(pid, 0)
        os.close(lock)
        os.close(pid_lock)


def _ask(guardian: socket.socket, verb: bytes) -> tuple[int, socket.socket]:
    """Ask for one shim; return its pid and its link, which ends it when it is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sockets.send(guardian, verb, [theirs.fileno()])
    theirs.close()
    ours.settimeout(20)
    hello = ours.recv(100).split()
    assert hello[0] == b"hello"
    assert guardian.recv(100) in {b"forked", b"ping"}
    return int(hello[1]), ours


def test_a_supervisor_of_an_older_version_gets_forks(tmp_path: Path, program: str) -> None:
    """It knows one kind, and looks for one word at the end of the greeting."""
    with _guardian(tmp_path / "state", program) as guardian:
        hello = guardian.recv(100)
        assert hello.startswith(b"hello ")
        assert hello.endswith(b" exec forked")
        for verb, kind in ((b"fork", _FORK), (b"exec", _PROGRAM)):
            pid, link = _ask(guardian, verb)
            assert _kind(pid) == kind
            link.close()
            until(lambda pid=pid: not is_alive(pid), "the shim's end")  # type: ignore[misc] # a bound pid


def test_a_guardian_without_the_program_does_not_offer_it(tmp_path: Path) -> None:
    with _guardian(tmp_path / "state", "off") as guardian:
        assert guardian.recv(100).split()[2:] == [b"forked"]
        pid, link = _ask(guardian, b"exec")
        assert _kind(pid) == _FORK
        link.close()
