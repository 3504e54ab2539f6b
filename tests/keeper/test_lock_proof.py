"""Who is behind a connection: the process that holds a lock, by the kernel's word, and on older kernels without it."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.keeper import sockets
from outlive.keeper.kernel import boottime_ns
from outlive.keeper.locks import holder_of, retire_lock, take_lock

# The judge is a process of its own: how it asks the kernel is settled when it loads.
_JUDGE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from outlive.keeper import sockets
from outlive.keeper.lock_proof import is_lock_holder
lock = os.open(sys.argv[2], os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC)
listener = sockets.listen_unix(sys.argv[3])
listener.setblocking(True)
print("listening", flush=True)
for line in sys.stdin:
    connection, _ = listener.accept()
    print(is_lock_holder(connection, lock), flush=True)
    connection.close()
"""
_SOURCE = str(Path(sockets.__file__).parents[2])
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
WAYS = {"pidfd": "", "older": "peer_pidfd"}


class Judge:
    """Says of each connection whether the lock's holder made it."""

    def __init__(self, folder: Path, degrade: str) -> None:
        self.lock, self.path = str(folder / "lock"), str(folder / "sock")
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _JUDGE, _SOURCE, self.lock, self.path],
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


def _fork_as(pid: int) -> int:
    """Fork a process with a number of our choice; others on this machine may be quicker a few times."""
    for _ in range(200):
        _LAST_PID.write_text(str(pid - 1))
        child = os.fork()
        if not child and os.getpid() != pid:
            os._exit(0)
        if child in {0, pid}:
            return child
        os.waitpid(child, 0)
    raise AssertionError(f"somebody else has {pid}")


@contextmanager
def _other(act: Callable[[], object], *, pid: int = 0) -> Iterator[int]:
    """Fork a process that does something and then lives until the block is left; with `pid` it has this number."""
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
    lock = take_lock(judge.lock)
    assert lock is not None
    assert holder_of(judge.lock) == os.getpid()
    assert judge.lets_us_in()
    connections: list[socket.socket] = []
    with _other(
        lambda: connections.append(judge.connect())
    ):  # it has the lock's descriptor, too, and our uid
        assert not judge.lets_in()
    os.close(lock)
    assert not judge.lets_us_in(), "what is written there says nothing without the lock"


def test_who_retired_is_not_let_in(judge: Judge) -> None:
    lock = take_lock(judge.lock)
    retire_lock(judge.lock)
    assert not judge.lets_us_in()
    assert lock is not None
    os.close(lock)


def test_a_holder_of_an_older_version_is_let_in(judge: Judge) -> None:
    """It writes its pid, and leaves what stands behind it: of a holder of before it, with another pid."""
    for behind in (b"", b"".ljust(21) + b"1 2\n".ljust(32)):
        lock = take_lock(judge.lock)
        assert lock is not None
        os.truncate(judge.lock, 0)
        os.pwrite(lock, b"%-10d\n" % os.getpid() + behind, 0)
        assert holder_of(judge.lock) == os.getpid()
        assert judge.lets_us_in()
        os.close(lock)


def test_a_lock_in_the_place_of_the_lock_is_none(judge: Judge) -> None:
    with _other(lambda: take_lock(judge.lock)):
        assert not judge.lets_us_in()
        os.rename(judge.lock, judge.lock + ".aside")
        lock = take_lock(judge.lock)
        assert lock is not None
        assert not judge.lets_us_in()
        os.close(lock)


def test_a_connection_of_a_process_that_died_is_nobodys(judge: Judge, way: str, numbers: None) -> None:
    """Also when the lock's holder has its number now. Without the kernel's word nothing tells the two apart."""
    receiving, sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def connect_and_pass_on() -> None:
        with judge.connect() as connection:
            socket.send_fds(sending, [b"here"], [connection.fileno()])

    with _other(connect_and_pass_on) as dead:
        _, fds, _, _ = socket.recv_fds(receiving, 10, 1)
    with _other(lambda: take_lock(judge.lock), pid=dead):
        assert judge.lets_in() is (way == "older")
    os.close(fds[0])
    receiving.close()
    sending.close()


def test_the_number_of_a_holder_that_died_is_not_its_identity(judge: Judge, numbers: None) -> None:
    """The lock lives on in a child that had it, and its file says the number that another process has now."""
    receiving, sending = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def hold_and_pass_on() -> None:
        lock = take_lock(judge.lock)
        assert lock is not None
        socket.send_fds(sending, [b"lock"], [lock])

    with _other(hold_and_pass_on) as dead:
        _, kept, _, _ = socket.recv_fds(receiving, 10, 1)
    _wait_for_another_tick()
    assert holder_of(judge.lock) == dead
    connections: list[socket.socket] = []
    with _other(lambda: connections.append(judge.connect()), pid=dead):
        assert not judge.lets_in()
    os.close(kept[0])
    receiving.close()
    sending.close()


def _wait_for_another_tick() -> None:
    """Let the clock of start times go on: two processes of one tick and one number are one to it."""
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    begun = boottime_ns() // tick_ns
    while boottime_ns() // tick_ns <= begun + 1:
        os.sched_yield()
