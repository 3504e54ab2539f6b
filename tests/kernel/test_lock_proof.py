"""Which process is behind a connection: the one that holds the record lock, by the kernel's word, and on
older kernels without it.
"""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.kernel import sockets
from outlive.kernel.lock_proof import open_pid_lock, pid_of_holder, take_pid_lock
from outlive.kernel.locks import holder_of, take_lock
from outlive.kernel.processes import start_ticks

# The judge is a process of its own: how it asks the kernel is settled when it loads.
_JUDGE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from outlive.kernel import sockets
from outlive.kernel.lock_proof import is_bound, is_lock_holder
from outlive.kernel.lock_proof import open_pid_lock
lock = open_pid_lock(sys.argv[2])
listener = sockets.listen_unix(sys.argv[3])
listener.setblocking(True)
print("listening", flush=True)
for line in sys.stdin:
    connection, _ = listener.accept()
    print(is_lock_holder(connection, lock, may_be_bound=is_bound(os.getpid())), flush=True)
    connection.close()
"""
_SOURCE = str(Path(sockets.__file__).parents[2])
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_PRCTL = ctypes.CDLL(None).prctl
_PR_SET_NO_NEW_PRIVS = 38
WAYS = {"pidfd": "", "older": "peer_pidfd"}


class Judge:
    """Says of each connection whether the lock's holder made it."""

    def __init__(self, folder: Path, degrade: str, *words: str) -> None:
        self.lock, self.path = str(folder / "lock"), str(folder / "sock")
        self._process = subprocess.Popen(
            [*words, sys.executable, "-S", "-c", _JUDGE, _SOURCE, self.lock, self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"OUTLIVE_DEGRADE": degrade},
        )
        assert self._said() == "listening"

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def connect(self) -> socket.socket:
        return sockets.connect_unix(self.path)

    def lets_in(self) -> bool:
        """Judge the oldest connection that waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("next\n")
        self._process.stdin.flush()
        said = self._said()
        assert said in {"True", "False"}
        return said == "True"

    def lets_us_in(self) -> bool:
        with self.connect():
            return self.lets_in()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(params=WAYS, ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def judge(tmp_path: Path, way: str) -> Iterator[Judge]:
    judging = Judge(tmp_path, WAYS[way])
    yield judging
    judging.close()


class _NumberTaken(Exception):
    """Another process of this machine has the number that a test wanted, and keeps it."""


def _fork_as(pid: int) -> int:
    """Fork a process with a number of our choice; others on this machine may be quicker a few times.

    Raises:
        _NumberTaken: One of them has the number and lives.
    """
    for _ in range(200):
        _LAST_PID.write_text(str(pid - 1))
        child = os.fork()
        if not child and os.getpid() != pid:
            os._exit(0)
        if child in {0, pid}:
            return child
        os.waitpid(child, 0)
    raise _NumberTaken(pid)


def _take(path: str) -> int:
    lock = open_pid_lock(path)
    assert take_pid_lock(lock)
    return lock


def _bind_and_connect(judge: Judge) -> None:
    """Be a process that may gain no privileges, and holds the lock."""
    assert _PRCTL(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    _take(judge.lock)
    judge.connect().detach()


@contextmanager
def _other(act: Callable[[], object], *, pid: int = 0) -> Iterator[int]:
    """Fork a process that does something and then lives until the block is left.

    With `pid` it has this number.
    """
    begun, begins = os.pipe()
    ends, end = os.pipe()
    child = _fork_as(pid) if pid else os.fork()
    if not child:
        try:
            act()
            os.write(begins, b"1")
            os.close(end)
            os.read(ends, 1)
        finally:
            os._exit(0)
    for fd in (begins, ends):
        os.close(fd)
    try:
        assert os.read(begun, 1)
        os.close(begun)
        yield child
    finally:
        os.close(end)
        os.waitpid(child, 0)


@pytest.fixture
def numbers() -> None:
    """The next pid can be chosen here."""
    try:
        _LAST_PID.write_text(_LAST_PID.read_text().strip())
    except OSError:
        pytest.skip("only root in the machine's own namespaces may choose the next pid")


def test_the_holder_is_let_in_and_others_are_not(judge: Judge) -> None:
    assert not judge.lets_us_in()
    lock = _take(judge.lock)
    assert judge.lets_us_in()
    connections: list[socket.socket] = []

    def connect_and_try() -> None:
        connections.append(judge.connect())
        assert not take_pid_lock(lock), "a fork has the descriptor, and our uid, but not the lock"

    with _other(connect_and_try):
        assert not judge.lets_in()
    assert judge.lets_us_in(), "what a fork closes is not ours"
    os.close(lock)
    assert not judge.lets_us_in()


def test_what_a_command_can_write_into_a_lock_file_proves_nothing(judge: Judge, tmp_path: Path) -> None:
    """Its pid and its start time, as the supervisor writes them, and the other kind of lock on the same
    file.
    """
    lock = take_lock(judge.lock)
    assert lock is not None
    assert holder_of(judge.lock) == os.getpid()
    assert not judge.lets_us_in()
    os.close(lock)
    with _other(lambda: _take(judge.lock)) as holder:
        line = (b"%-10d\n" % os.getpid()).ljust(32) + b"%d %d\n" % (os.getpid(), start_ticks(os.getpid()))
        Path(judge.lock).write_bytes(line.ljust(64))
        assert not judge.lets_us_in()
        asking = os.open(judge.lock, os.O_RDONLY)
        assert pid_of_holder(asking) == holder
        os.close(asking)


def test_a_holder_that_may_gain_no_privileges_is_refused_by_one_that_may(judge: Judge) -> None:
    """A `guarded` command that has killed the supervisor, and has its lock."""
    with _other(lambda: _bind_and_connect(judge)):
        assert not judge.lets_in()


def test_where_nothing_may_gain_privileges_the_holder_is_let_in(tmp_path: Path, way: str) -> None:
    """A keeper in a container or a unit that forbids it to all."""
    if not (setpriv := shutil.which("setpriv")):
        pytest.skip("setpriv is missing")
    judge = Judge(tmp_path, WAYS[way], setpriv, "--no-new-privs")
    try:
        with _other(lambda: _bind_and_connect(judge)):
            assert judge.lets_in()
        lock = _take(judge.lock)
        assert judge.lets_us_in()
        os.close(lock)
    finally:
        judge.close()


@pytest.mark.root("only root may choose its groups")
def test_a_process_with_many_groups_is_bound_all_the_same(judge: Judge) -> None:
    """They stand before what is looked for, and make the file long."""

    def bind_and_connect() -> None:
        os.setgroups(range(100_000, 104_000))
        _bind_and_connect(judge)

    with _other(bind_and_connect):
        assert not judge.lets_in()

    def connect() -> None:
        os.setgroups(range(100_000, 104_000))
        _take(judge.lock)
        judge.connect().detach()

    with _other(connect):
        assert judge.lets_in()


def test_a_lock_in_the_place_of_the_lock_is_none(judge: Judge) -> None:
    with _other(lambda: _take(judge.lock)):
        assert not judge.lets_us_in()
        os.rename(judge.lock, judge.lock + ".aside")
        lock = _take(judge.lock)
        assert not judge.lets_us_in()
        os.close(lock)


def _left_by_the_dead(judge: Judge) -> tuple[int, int]:
    """Return a connection to the judge (a file descriptor), and the number of the process that made it and
    has died.
    """
    receiving, sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def connect_and_pass_on() -> None:
        with judge.connect() as connection:
            socket.send_fds(sending, [b"here"], [connection.fileno()])

    with receiving, sending, _other(connect_and_pass_on) as dead:
        _, fds, _, _ = socket.recv_fds(receiving, 10, 1)
    return fds[0], dead


@pytest.mark.root("only root may choose the next pid")
def test_a_connection_of_a_process_that_died_is_nobodys(judge: Judge, way: str, numbers: None) -> None:
    """Also when the lock's holder has its number now.

    Without the kernel's word nothing tells the two apart.
    """
    # A number of the dead may be given away again, to another process of this machine: then another dead one
    # will do.
    for _ in range(10):
        connection, dead = _left_by_the_dead(judge)
        try:
            with _other(lambda: _take(judge.lock), pid=dead):
                assert judge.lets_in() is (way == "older")
        except _NumberTaken:
            judge.lets_in()  # that connection stands first in the judge's queue
        else:
            return
        finally:
            os.close(connection)
    raise AssertionError("each number of the dead was taken at once")
