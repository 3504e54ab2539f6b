"""Whatever a peer sends, a minder or a shim neither dies of a signal nor spins; under sanitizers, too."""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.core.command import Profile
from outlive.keeper.sandbox.capabilities import ask_offers
from outlive.keeper.sandbox.steps import SandboxPlace, bounds_of
from outlive.kernel import sockets
from outlive.kernel.processes import stat_fields
from tests.runner.playing import Command, Runner, Supervisor, exec_spec, in_memory, wait_until
from tests.runner.shims import Shim

pytestmark = pytest.mark.thorough

_VERBS = (
    "spawn",
    "go",
    "terminal",
    "close",
    "hold",
    "release",
    "",
    "spawn L",
    "go 1 2 3",
)

_words = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda verb, rest: f"{verb} {rest}".encode("utf-8", "surrogatepass"),
        st.sampled_from(_VERBS),
        st.one_of(
            st.text(alphabet="LoeirwIOESTXFPpm0123456789 -\0\n/", max_size=40),
            st.text(max_size=40),
            st.integers(-(2**70), 2**70).map(str),
            st.just("9" * 500),
        ),
    ),
    st.sampled_from([b"x" * 8192, b"x" * 8193, b"terminal 24 80", b"go 1 2 3 4", b"close o"]),
)
_kinds = st.sampled_from(
    [
        "null",
        "full",
        "file",
        "listener",
        "stream",
        "pipe-read",
        "pipe-write",
        "self",
        "epoll",
        "folder",
        "spec",
    ]
)


# Of steps those that reach nothing but the child.
_STEPS = (
    b"no_new_privileges",
    b"allow 5 /usr",
    b"allow",
    b"allow 5",
    b"landlock 5 0",
    b"landlock",
    b"seccomp 060000000000ff7f",
    b"seccomp 0",
    b"seccomp zz",
    b"capabilities 0",
    b"hide /",
    b"set",
    b"pin /",
    b"protect /",
    b"seal",
)
_specs = st.one_of(
    st.binary(max_size=300),
    st.lists(st.binary(max_size=30), max_size=30).map(
        lambda words: b"outlive-spec-1 0\n" + b"\0".join(words)
    ),
    st.tuples(
        st.integers(-2, 2**65),
        st.lists(
            st.sampled_from([b"", b"a", b"=", b"A=1", b"limit 7 9", b"else x", b"0", *_STEPS]), max_size=12
        ),
    ).map(
        lambda made: b"outlive-spec-1 0\n/dev/null/outlive-exec-2\0/\0%d\0" % made[0] + b"\0".join(made[1])
    ),
    st.integers(0, 60).map(lambda size: exec_spec(("/nowhere/x", "y"), steps=("limit 7 100",))[:size]),
)


@pytest.fixture
def checked(sanitized: Path, tmp_path: Path) -> Iterator[Runner]:
    running = Runner(sanitized, tmp_path)
    yield running
    running.discard()
    said = running.said()
    assert "ERROR" not in said, said
    assert "runtime error" not in said, said


@pytest.fixture
def asking(sanitized: Path, tmp_path: Path) -> Iterator[Runner]:
    running = Runner(sanitized, tmp_path, asks=True)
    yield running
    running.discard()
    said = running.said()
    assert "ERROR" not in said, said
    assert "runtime error" not in said, said


def _open(kind: str) -> int:
    """Return a descriptor of some kind; what a peer could send by mistake, or to do harm."""
    match kind:
        case "null" | "full":
            return os.open(f"/dev/{kind}", os.O_RDWR)
        case "folder":
            return os.open("/", os.O_RDONLY)
        case "pipe-read" | "pipe-write":
            ends = os.pipe()
            os.close(ends[kind == "pipe-read"])
            return ends[kind != "pipe-read"]
        case "listener" | "stream":
            listener = socket.socket(
                socket.AF_UNIX, socket.SOCK_SEQPACKET if kind == "listener" else socket.SOCK_STREAM
            )
            listener.bind("")
            listener.listen()
            return listener.detach()
        case "epoll":
            with select.epoll() as epoll:
                return os.dup(epoll.fileno())
        case "spec":
            return in_memory(exec_spec(("/bin/true",)))
        case _:
            return in_memory(b"word\0" * 3)


def _ticks(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def _is_quiet(pid: int) -> bool:
    """Tell whether a process rests: it is asleep, and uses no time."""
    before = _ticks(pid)
    time.sleep(0.1)
    return stat_fields(pid)[:1] == [b"S"] and _ticks(pid) - before <= 1


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(answer=st.one_of(_words, st.just(b"proved")), kinds=st.lists(_kinds, max_size=15))
def test_no_packet_is_a_proof(asking: Runner, answer: bytes, kinds: list[str]) -> None:
    peer = Supervisor(asking.connect())
    assert peer.words()[0] == "prove"
    fds = [_open(kind) for kind in kinds]
    try:
        peer.send(answer or b"\0", *fds)
    finally:
        for fd in fds:
            os.close(fd)
    assert peer.packet() == (b"", [])
    peer.close()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(packets=st.lists(st.tuples(_words, st.lists(_kinds, max_size=15)), max_size=12))
def test_any_packets_are_survived(checked: Runner, packets: list[tuple[bytes, list[str]]]) -> None:
    supervisor = Supervisor(checked.connect())
    minder = int(supervisor.words()[1])
    for words, kinds in packets:
        fds = [_open(kind) for kind in kinds]
        try:
            supervisor.send(words, *fds)
        except (BrokenPipeError, ConnectionResetError):
            break  # `quit`, or the end of the link: an empty packet
        finally:
            for fd in fds:
                os.close(fd)
    supervisor.close()
    wait_until(lambda: not Path(f"/proc/{minder}").exists() or _is_quiet(minder))
    # One that waits for a new supervisor is what it should be; it ends with the test.
    assert checked.process.poll() is None
    assert "ERROR" not in checked.said()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    spec=_specs,
    secrets=st.one_of(st.none(), st.binary(max_size=60)),
)
def test_any_spec_is_survived(
    checked: Runner, tmp_path_factory: pytest.TempPathFactory, spec: bytes, secrets: bytes | None
) -> None:
    command = Command(checked, tmp_path_factory.mktemp("process"))
    more = {} if secrets is None else {"S": in_memory(secrets)}
    command.spawn(spec, more=more)
    command.born()
    command.go()
    words = command.supervisor.words()
    assert words[0] in {"failed", "spawned"}
    if words[0] == "failed":
        assert "126" not in words[1:2]
        assert command.take_over()[3:6] == ["failed", words[1], "1"]
    command.release()


@pytest.fixture
def checked_shim(sanitized: Path, tmp_path: Path) -> Iterator[Callable[[], Shim]]:
    """Starts shims with the compiler's checks."""
    made: list[Shim] = []

    def make() -> Shim:
        made.append(Shim("plain", sanitized, tmp_path / f"shim-{len(made)}"))
        return made[-1]

    yield make
    for one in made:
        one.discard()
        assert one.said() == ""


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(packets=st.lists(st.tuples(_words, st.lists(_kinds, max_size=15)), max_size=12))
def test_any_packets_are_survived_by_a_shim(
    checked_shim: Callable[[], Shim], packets: list[tuple[bytes, list[str]]]
) -> None:
    shim = checked_shim()
    for words, kinds in packets:
        fds = [_open(kind) for kind in kinds]
        try:
            shim.supervisor.send(words.replace(b"FOLDER", os.fsencode(shim.folder)), *fds)
        except (BrokenPipeError, ConnectionResetError):
            break
        finally:
            for fd in fds:
                os.close(fd)
    shim.supervisor.close()
    wait_until(lambda: shim.process.poll() == 0 or _is_quiet(shim.process.pid))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=_specs, secrets=st.one_of(st.none(), st.binary(max_size=60)))
def test_any_spec_is_survived_by_a_shim(
    checked_shim: Callable[[], Shim], spec: bytes, secrets: bytes | None
) -> None:
    shim = checked_shim()
    (shim.folder / "spec").write_bytes(spec)
    null = os.open(os.devnull, os.O_RDWR)
    more = [] if secrets is None else [in_memory(secrets)]
    letters = "LIOE" + "S" * len(more)
    for _ in range(2):
        shim.supervisor.send(
            f"spawn {letters} {shim.folder}", shim.listener.fileno(), null, null, null, *more
        )
        words = shim.supervisor.words()
        assert words[0] in {"failed", "spawned"}
        if words[0] == "spawned":
            assert shim.ended()[2] == "1"
        shim.supervisor.send("release")
    for fd in (null, *more):
        os.close(fd)
    shim.supervisor.send("quit")
    assert shim.wait() == 0


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    packets=st.lists(
        st.tuples(
            st.one_of(st.integers(-5, 2**65).map(b"%d".__mod__), st.binary(max_size=30)), st.integers(0, 3)
        ),
        max_size=70,
    )
)
def test_any_lent_descriptors_are_survived_by_a_shim(
    checked_shim: Callable[[], Shim], packets: list[tuple[bytes, int]]
) -> None:
    shim = checked_shim()
    (shim.folder / "spec").write_bytes(exec_spec(("/bin/true",)))
    null = os.open(os.devnull, os.O_RDWR)
    ours, lent = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with lent:
        with ours:
            for words, count in packets:
                socket.send_fds(ours, [words], [null] * count)
        fds = (shim.listener.fileno(), null, null, null, lent.fileno())
        shim.supervisor.send(f"spawn LIOED {shim.folder}", *fds)
    os.close(null)
    shim.spawned()
    assert shim.ended()[:2] == ["exited", "0"]
    shim.supervisor.send("release")
    shim.supervisor.send("quit")
    assert shim.wait() == 0


@pytest.mark.parametrize("profile", [one for one in Profile if one is not Profile.OPEN])
def test_a_shim_takes_all_steps_under_the_sanitizers(
    checked_shim: Callable[[], Shim], sanitized: Path, profile: Profile, tmp_path: Path
) -> None:
    offers = ask_offers(str(tmp_path), program=str(sanitized))
    if offers.obstacles[profile]:
        assert "program" not in offers.obstacles[profile]
        pytest.skip(offers.obstacles[profile])
    place = SandboxPlace(
        writable=(str(tmp_path),), readable=("/usr", "/bin", "/lib", "/lib64"), hidden=("/home",)
    )
    bounds = bounds_of(profile, offers.machine, place, name="x")
    assert bounds is not None
    shim = checked_shim()
    for stdio in ("pipes", "pty"):
        shim.spawn(
            "/bin/sh", "-c", "(sleep 0.01 &); exit 3", cwd=str(tmp_path), stdio=stdio, steps=bounds.steps
        )
        shim.spawned()
        kind, number, empty = shim.ended()
        assert (kind, number) == ("exited", "3")
        if empty == "0":
            assert shim.supervisor.words() == ["empty"]
        shim.release()
    shim.supervisor.send("quit")
    assert shim.wait() == 0


def test_a_shim_works_under_the_sanitizers(checked_shim: Callable[[], Shim]) -> None:
    shim = checked_shim()
    for stdio in ("pipes", "merge", "pty"):
        shim.spawn("/bin/sh", "-c", "(sleep 0.01 &); exit 3", stdio=stdio, secrets={"A": "b"})
        shim.spawned()
        told = shim.take_over()[4:7]
        kind, number, empty = told if told[0] != "-" else shim.ended()  # it may have ended before we came
        assert (kind, number) == ("exited", "3")
        if empty == "0":
            assert shim.supervisor.words() == ["empty"]
        shim.release()
    shim.spawn("/nonexistent")
    assert shim.supervisor.words()[0] == "failed"
    shim.supervisor.send("quit")
    assert shim.wait() == 0


def test_everything_works_under_the_sanitizers(checked: Runner, tmp_path: Path) -> None:
    command = Command(checked, tmp_path / "one")
    command.start(
        ("no-such", "-c", "(setsid sleep 300 &) ; echo up; cat; sleep 300"),
        steps=("limit 7 100", "else sh"),
        env={"A": "1"},
        removed=("HOME",),
        secrets={"B": "2"},
        script=b":",
        pty=(24, 80),
    )
    command.read_until(b"up", "m")
    assert set(command.take_over()[0]) == set("irwmp")
    command.signal_tree(signal.SIGKILL)
    assert command.ended()[:2] == ["signaled", "9"]
    command.release()


def test_a_storm_of_connections_from_anywhere_is_survived(
    runner: Runner, command: Callable[[], None]
) -> None:
    assert isinstance(command, Command)
    command.start(("/bin/cat",))
    for _ in range(100):
        with contextlib.suppress(BlockingIOError), sockets.connect_unix(str(command.folder / "sock")):
            pass  # its backlog is as short as the keeper's
    assert command.take_over()[3] == "-"
    wait_until(lambda: _is_quiet(command.minder))


def test_a_listener_that_was_shut_down_makes_nobody_spin(command: Command) -> None:
    command.start(("/bin/sleep", "300"))
    command.listener.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: _is_quiet(command.minder))
    os.kill(command.pid, signal.SIGKILL)
    assert command.ended() == ["signaled", "9", "1"]


def test_a_supervisor_that_does_not_listen_holds_nobody_up(command: Command) -> None:
    command.start(("/bin/sleep", "300"))
    for _ in range(3000):
        try:
            command.supervisor.send("close m")
        except TimeoutError:
            break
    assert command.take_over()[3] == "-"
    os.kill(command.pid, signal.SIGKILL)
    assert command.ended()[:2] == ["signaled", "9"]


def test_packets_that_are_too_long_are_dropped(command: Command) -> None:
    for size in (8192, 8193, 60_000):
        command.supervisor.send(b"quit" + b"\0" * size)
        command.supervisor.send(b"terminal " + b"9" * size)
    assert command.supervisor.is_silent()
    command.start(("/bin/true",))


def test_only_words_that_make_sense_start_a_command(runner: Runner, tmp_path: Path) -> None:
    supervisor = Supervisor(runner.connect())
    supervisor.prove(runner.lock)
    assert supervisor.words()[0] == "hello"
    record, spec, out = in_memory(b""), in_memory(exec_spec(("/bin/true",))), os.open("/dev/null", os.O_RDWR)
    for letters, fds in (
        ("", []),
        ("PX", [record, spec]),
        ("PXO", [record, spec]),
        ("PXOO", [record, spec, out, out]),
        ("PXOp", [record, spec, out, out]),
        ("PXOL", [record, spec, out, out]),
    ):
        supervisor.send(f"spawn {letters} /", *fds)
        assert supervisor.words() == ["failed", "22", "spec"], letters
    supervisor.send("spawn PXO /", out, spec, out)
    assert supervisor.words() == ["failed", "22", "pid"], "a record must be a file"
    for fd in (record, spec, out):
        os.close(fd)
    supervisor.close()
