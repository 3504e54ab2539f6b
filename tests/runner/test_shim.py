"""The shim: its protocol, its files, the start of a command, with steps of a sandbox and without."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from outlive.discovery.runner_build import runner_sources
from outlive.kernel import sockets
from outlive.kernel.processes import start_ticks, stat_fields, this_boot
from outlive.protocols.frames import decode_end, decode_pid
from tests.runner.playing import exec_spec, wait_until
from tests.runner.shims import KINDS, Shim
from tests.support.processes import descendants, end, is_alive

# 28 KB with musl, 72 with glibc.
_OWN_BYTES = (60 if shutil.which("musl-gcc") else 100) << 10


def _record(shim: Shim) -> bytes:
    record = shim.folder / "pid"
    return record.read_bytes() if record.exists() else b""


def test_a_command_is_started_recorded_and_its_end_is_told(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "echo $GREETING; echo no >&2; cat; exit 7", env={"GREETING": "hello"})
    pid, ticks, started_ns = shim.spawned()
    record = decode_pid(_record(shim))
    assert record is not None
    assert (record.pid, record.start_ticks, record.boot_id) == (pid, start_ticks(pid), this_boot())
    assert (record.start_ticks, record.started_ns, record.shim_pid) == (ticks, started_ns, shim.process.pid)
    shim.supervisor.send("close i")
    os.close(shim.held.pop("i"))
    words = shim.supervisor.words()
    assert (words[0], words[1:4]) == ("exited", ["exited", "7", "1"])
    told = decode_end(_record(shim))
    assert told is not None
    assert (told.kind, told.number, told.note, str(told.ended_ns)) == ("exited", 7, "", words[4])
    lines = _record(shim).splitlines(keepends=True)
    assert (lines[0], len(lines)) == (b"starting\n", 3)
    assert re.fullmatch(rb"exited 7 \d+ \n", lines[2])
    assert not Path(f"/proc/{pid}").exists(), "it was reaped"
    shim.release()


def test_the_start_time_that_it_tells_is_the_one_in_proc(shim: Shim) -> None:
    """However it knows it: half a second of starts crosses many ticks of the clock."""
    for _ in range(150):
        shim.spawn("/bin/cat")
        pid, ticks, _ = shim.spawned()
        assert ticks == start_ticks(pid)
        os.close(shim.held.pop("i"))
        shim.supervisor.send("close i")
        assert shim.ended() == ["exited", "0", "1"]
        shim.release()


@pytest.mark.parametrize("size", [0, 1000, 7000, 15_000, 16_000, 16_384, 17_000, 120_000])
def test_a_command_gets_all_of_its_environment_however_large(shim: Shim, size: int) -> None:
    env = {"FIRST": "1", "LARGE": "x" * size, **{f"N{number}": str(number) for number in range(size // 100)}}
    for secrets in (None, {"SECRET": "y" * (size // 2)}):
        shim.spawn("/usr/bin/env", env=env, secrets=secrets)
        shim.spawned()
        wanted = sorted(f"{name}={value}" for name, value in {**env, **(secrets or {})}.items())
        assert sorted(shim.read().decode().splitlines()) == wanted
        assert shim.ended() == ["exited", "0", "1"]
        shim.release()


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.parametrize("size", [10, 15_000, 60_000])
def test_nothing_of_a_secret_stays_in_the_shims_memory(shim: Shim, size: int) -> None:
    """It stands beside the command for as long as that runs, and a secret is in memory only where it is
    used.
    """
    shim.spawn("/bin/cat", env={"PLAIN": "plain"}, secrets={"TOKEN": ("open" + "sesame") * (size // 10)})
    shim.spawned()
    assert b"opensesame" not in _memory_of(shim.process.pid)


def _memory_of(pid: int) -> bytes:
    """Return what a process may write to."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights = line.split()[:2]
            first, last = (int(number, 16) for number in place.split("-"))
            if rights.startswith("rw"):
                memory.seek(first)
                found.append(memory.read(last - first))
    return b"".join(found)


def test_a_signal_is_told_as_one(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "kill -KILL $$")
    shim.spawned()
    assert shim.ended() == ["signaled", "9", "1"]
    assert re.fullmatch(rb"signaled 9 \d+ \n", _record(shim).splitlines(keepends=True)[2])


def test_what_outlives_the_command_is_reaped_by_the_shim_and_the_last_one_is_told(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "(setsid sleep 300 & echo $!); exit 3")
    shim.spawned()
    assert shim.ended() == ["exited", "3", "0"]
    left = int(os.read(shim.held["o"], 100))
    assert int(stat_fields(left)[1]) == shim.process.pid, "it is the subreaper"
    end(left)
    assert shim.supervisor.words() == ["empty"]


def test_the_next_supervisor_gets_the_state_and_every_descriptor(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "read line; echo $line; exit 4")
    pid, ticks, _ = shim.spawned()
    assert shim.take_over() == ["own", "ioe", str(pid), str(ticks), "-", "0", "0", "0"]
    assert shim.take_over() == ["own", "ioe", str(pid), str(ticks), "-", "0", "0", "0"]
    os.write(shim.held["i"], b"handed over\n")
    assert shim.ended() == ["exited", "4", "1"]
    assert os.read(shim.held["o"], 100) == b"handed over\n"
    state = shim.take_over()
    assert state[:7] == ["own", "ioe", str(pid), str(ticks), "exited", "4", "1"]
    told = decode_end(_record(shim))
    assert told is not None
    assert state[7] == str(told.ended_ns)


def test_it_waits_for_the_next_supervisor_while_there_is_something_to_tell(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "exit 9")
    shim.supervisor.close()
    wait_until(lambda: b"exited 9" in _record(shim))
    assert shim.process.poll() is None
    assert shim.take_over()[4:7] == ["exited", "9", "1"]
    shim.release()
    shim.supervisor.close()
    assert shim.wait() == 0


def test_it_ends_without_a_supervisor_when_it_serves_nothing(shim: Shim) -> None:
    shim.supervisor.close()
    assert shim.wait() == 0


def test_it_quits_when_it_is_told(shim: Shim) -> None:
    shim.supervisor.send("quit")
    assert shim.wait() == 0


@pytest.mark.parametrize("how", ["quit", "end"])
def test_a_shim_that_is_stopped_hears_its_supervisor(shim: Shim, how: str) -> None:
    """Also when no process is left that could continue it: what comes by its link does."""
    os.kill(shim.process.pid, signal.SIGSTOP)
    wait_until(lambda: stat_fields(shim.process.pid)[0] == b"T")
    if how == "quit":
        shim.supervisor.send("quit")
    else:
        shim.supervisor.close()
    assert shim.wait() == 0


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_it_serves_one_command_after_the_other(shim: Shim) -> None:
    before = len(os.listdir(f"/proc/{shim.process.pid}/fd"))
    for number in range(5):
        shim.spawn("/bin/sh", "-c", f"echo {number}; exit {number}")
        shim.spawned()
        assert shim.ended() == ["exited", str(number), "1"]
        assert shim.read() == b"%d\n" % number
        shim.release()
    wait_until(lambda: len(os.listdir(f"/proc/{shim.process.pid}/fd")) == before)
    assert _record(shim).count(b"\n") == 3, "each begins with an empty record"


@pytest.mark.parametrize(
    ("how", "number", "place"),
    [
        ({"cwd": "/nonexistent"}, errno.ENOENT, "cwd"),
        ({"cwd": "/etc/passwd"}, errno.ENOTDIR, "cwd"),
        ({"program": "/nonexistent"}, errno.ENOENT, "program"),
        ({"program": "/etc/passwd"}, errno.EACCES, "program"),
        ({"env": {"BIG": "x" * 200_000}}, errno.E2BIG, "program"),
    ],
    ids=["no-folder", "a-file-as-folder", "no-program", "not-executable", "too-long"],
)
def test_a_start_that_fails_is_recorded_and_told(
    shim: Shim, how: dict[str, object], number: int, place: str
) -> None:
    shim.spawn("/bin/true", **how)  # type: ignore[arg-type]
    assert shim.supervisor.words() == ["failed", str(number), place]
    assert re.fullmatch(rb"starting\nfailed %d \d+ %s\n" % (number, place.encode()), _record(shim))
    assert shim.take_over()[2:7] == ["0", "0", "failed", str(number), "1"]
    shim.release()
    shim.spawn("/bin/true")
    shim.spawned()
    assert shim.ended() == ["exited", "0", "1"]


def test_a_spec_that_is_gone_fails_there(shim: Shim) -> None:
    shim.spawn("/bin/true")
    shim.spawned()
    shim.ended()
    shim.release()
    listener = shim.listener.fileno()
    (shim.folder / "spec").unlink()
    null = os.open(os.devnull, os.O_RDWR)
    shim.supervisor.send(f"spawn LIO {shim.folder}", listener, null, null)
    os.close(null)
    assert shim.supervisor.words() == ["failed", str(errno.ENOENT), "spec"]


def test_a_deleted_folder_gets_no_record_and_nobody_waits_for_it(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "read line; exit 5")
    shim.spawned()
    shutil.rmtree(shim.folder)
    os.close(shim.held.pop("i"))
    shim.supervisor.send("close i")
    assert shim.ended() == ["exited", "5", "1"]
    assert not shim.folder.exists()
    shim.supervisor.close()
    assert shim.wait() == 0


def test_a_shim_whose_folder_is_deleted_after_the_end_does_not_wait_for_a_supervisor(
    shims: Callable[..., Shim],
) -> None:
    """Nothing tells it of that, so it looks: once a minute, and here more often."""
    shim = shims("plain", env={"OUTLIVE_DEGRADE": "minute"})
    shim.spawn("/bin/sh", "-c", "exit 5")
    shim.spawned()
    assert shim.ended() == ["exited", "5", "1"]
    shim.supervisor.close()
    wait_until(lambda: stat_fields(shim.process.pid)[0] == b"S")
    assert shim.process.poll() is None, "a supervisor may come as long as the folder is there"
    shutil.rmtree(shim.folder)
    assert shim.wait() == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", [0, 200, 995, 999, 1000])
def test_the_kernel_takes_a_command_before_its_shim_when_memory_runs_out(
    shims: Callable[..., Shim], kind: str, own: int
) -> None:
    """However deep one outlive runs in another: a fifth of what is left is added each time."""
    before = _oom_score("self")
    if own < before:
        pytest.skip("only root may go below what was inherited")
    _oom_file("self").write_text(str(own))
    try:
        shim = shims(kind)
    finally:
        _oom_file("self").write_text(str(before))
    for _ in range(2):
        shim.spawn("/bin/sleep", "1000")
        pid, _, _ = shim.spawned()
        assert (_oom_score(shim.process.pid), _oom_score(pid)) == (own, own + (1004 - own) // 5)
        assert own == 1000 or _oom_score(pid) > own
        end(pid)
        shim.ended()
        shim.release()


def _oom_file(pid: int | str) -> Path:
    return Path(f"/proc/{pid}/oom_score_adj")


def _oom_score(pid: int | str) -> int:
    return int(_oom_file(pid).read_text())


def test_a_terminal_is_the_controlling_one(shim: Shim) -> None:
    name = "tty; tty </dev/tty; ps -o sid=,tpgid=,pid= -p $$ | tr -s ' '"
    shim.spawn("/bin/sh", "-c", name, env={"PATH": os.environ["PATH"]}, stdio="pty")
    pid, _, _ = shim.spawned()
    assert shim.ended() == ["exited", "0", "1"]
    said = shim.read("m").split()
    assert said[0].startswith(b"/dev/pts/")
    assert said[1] == b"/dev/tty"
    assert said[2:] == [b"%d" % pid] * 3


def test_secrets_come_over_the_environment(shim: Shim) -> None:
    shim.spawn("/bin/sh", "-c", "echo $A $B", env={"A": "open", "B": "open"}, secrets={"B": "secret"})
    shim.spawned()
    shim.ended()
    assert os.read(shim.held["o"], 100) == b"open secret\n"
    assert b"secret" not in (shim.folder / "spec").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE])
def test_a_shutdown_is_not_heeded_by_a_shim_but_by_its_command(shim: Shim, number: int) -> None:
    """Decision 62."""
    shim.spawn("/bin/sleep", "300")
    pid, _, _ = shim.spawned()
    os.kill(shim.process.pid, number)
    os.kill(pid, number)
    assert shim.ended() == ["signaled", str(int(number)), "1"]
    assert shim.process.poll() is None


@pytest.mark.root("only root may be somebody else")
def test_a_peer_of_another_user_is_hung_up_on(shim: Shim, tmp_path: Path) -> None:
    shim.spawn("/bin/sleep", "300")
    shim.spawned()
    asking = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET);"
        "os.setuid(65534); s.connect(sys.argv[1]); print(s.recv(100))"
    )
    (shim.folder / "sock").chmod(0o777)
    # By descriptor: the folders above are closed to others.
    words = [sys.executable, "-S", "-c", asking, "sock"]
    done = subprocess.run(words, cwd=shim.folder, capture_output=True, text=True, check=True)
    assert done.stdout == "b''\n"
    assert shim.take_over()[0] == "own"


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_a_shim_says_what_it_is(shims: Callable[..., Shim]) -> None:
    shim = shims("plain")
    assert Path(f"/proc/{shim.process.pid}/comm").read_text() == "outlive-shim\n"
    assert os.readlink(f"/proc/{shim.process.pid}/cwd") == "/"
    assert Path(f"/proc/{shim.process.pid}/cmdline").read_bytes().split(b"\0")[1] == b"shim"


_NEWNS, _NEWPID = 0x20000, 0x20000000  # clone(2)


@pytest.mark.parametrize(
    ("steps", "number", "place"),
    [
        (("clear",), errno.ENOSYS, "unknown"),  # a container's
        (("no_new_privileges", "open_all_doors"), errno.ENOSYS, "unknown"),
        (("",), errno.ENOSYS, "unknown"),
        (("limit 7",), errno.EINVAL, "limit"),
        (("limit 7 100", "limit 99 1"), errno.EINVAL, "limit"),
        (("set 5",), errno.EINVAL, "set"),
        (("set 5 /nonexistent/file",), errno.ENOENT, "set"),
        (("group /proc/none",), errno.ENOENT, "group"),
        (("allow x", "landlock 1 0"), errno.EINVAL, "landlock"),
        (("no_new_privileges", "seccomp"), errno.EINVAL, "seccomp"),
        (("no_new_privileges", "seccomp ffffffffffffffff"), errno.EINVAL, "seccomp"),
        # Nothing is mounted, or made read-only, in namespaces of others.
        (("processes",), errno.EINVAL, "processes"),
        (("pin /",), errno.EINVAL, "pin"),
        (("protect /",), errno.EINVAL, "protect"),
        pytest.param(
            (f"unshare {_NEWNS}", "protect /proc/self/cwd/none"),
            errno.ELOOP,
            "protect",
            marks=pytest.mark.root("an ordinary user needs a user namespace"),
        ),
        pytest.param(
            (f"unshare {_NEWNS}", "protect /nonexistent"),
            errno.ENOENT,
            "protect",
            marks=pytest.mark.root("an ordinary user needs a user namespace"),
        ),
        (("seal",), errno.EINVAL, "seal"),
        pytest.param(
            ("unshare 67108864", "seal"),  # CLONE_NEWUTS
            errno.EINVAL,
            "seal",
            marks=pytest.mark.root("an ordinary user needs a user namespace"),
        ),
        # A number that is none restricts nothing.
        (("unshare",), errno.EINVAL, "unshare"),
        (("unshare 0",), errno.EINVAL, "unshare"),
        (("unshare 67108864x",), errno.EINVAL, "unshare"),
        (("unshare 4294967296",), errno.EINVAL, "unshare"),
        (("loopback",), errno.EINVAL, "loopback"),
        (("capabilities -1",), errno.EINVAL, "capabilities"),
        (("capabilities",), errno.EINVAL, "capabilities"),
        (("allow -1 /", "landlock 1 0"), errno.EINVAL, "landlock"),
        (("landlock 1",), errno.EINVAL, "landlock"),
        (("landlock 1 x",), errno.EINVAL, "landlock"),
        (("no_new_privileges", "seccomp 060000000000ff7"), errno.EINVAL, "seccomp"),
        (("no_new_privileges", "seccomp 06000000000Xff7f"), errno.EINVAL, "seccomp"),
        (("no_new_privileges", "seccomp " + "060000000000ff7f" * 65_537), errno.EINVAL, "seccomp"),
        (("cgroup /" + "x" * 4095,), errno.ENAMETOOLONG, "cgroup"),
    ],
)
def test_a_command_never_runs_without_its_steps(
    shims: Callable[..., Shim], steps: tuple[str, ...], number: int, place: str, tmp_path: Path
) -> None:
    shim = shims("plain")
    ran = tmp_path / "ran"
    shim.spawn("/bin/sh", "-c", f"touch {ran}", steps=steps)
    assert shim.supervisor.words() == ["failed", str(number), f"sandbox:{place}"]
    assert not ran.exists()
    assert re.fullmatch(rb"starting\nfailed %d \d+ sandbox:%s\n" % (number, place.encode()), _record(shim))
    shim.release()
    shim.spawn("/bin/sh", "-c", f"touch {ran}")
    shim.spawned()
    assert shim.ended() == ["exited", "0", "1"]
    assert ran.exists(), "the shim itself is bounded by nothing"


@pytest.mark.root("an ordinary user needs a user namespace")
@pytest.mark.parametrize("verb", ["pin", "close"])
def test_a_place_that_goes_meanwhile_needs_no_wall(
    shims: Callable[..., Shim], verb: str, tmp_path: Path
) -> None:
    """Another server removes its folder between open(2) and mount(2): 3 of 100 starts failed."""
    shim = shims("plain")
    words = ["/bin/sh", "-c", 'while :; do mkdir "$1"; rmdir "$1"; done', "-", str(tmp_path / "its")]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as comes_and_goes:
        try:
            for _ in range(200):
                shim.spawn("/bin/true", steps=(f"unshare {_NEWNS}", f"{verb} {tmp_path}/its"))
                shim.spawned()
                assert shim.ended() == ["exited", "0", "1"]
                shim.release()
        finally:
            comes_and_goes.kill()


@pytest.mark.root("an ordinary user needs a user namespace")
def test_a_sealed_command_that_is_not_there_leaves_nobody(shims: Callable[..., Shim]) -> None:
    """Its sibling fails when all processes of the namespace exist already."""
    shim = shims("plain")
    for _ in range(3):
        shim.spawn("/nonexistent", steps=(f"unshare {_NEWNS | _NEWPID}", "seal"))
        assert shim.supervisor.words() == ["failed", str(errno.ENOENT), "program"]
        wait_until(lambda: not descendants(shim.process.pid))
        shim.release()


@pytest.mark.root("an ordinary user needs a user namespace")
def test_the_init_of_a_sealed_command_keeps_neither_secrets_nor_descriptors(
    shims: Callable[..., Shim],
) -> None:
    shim = shims("plain")
    secrets = {"TOKEN": "open" + "sesame"}
    shim.spawn("/bin/cat", secrets=secrets, steps=(f"unshare {_NEWNS | _NEWPID}", "seal"))
    pid, _, _ = shim.spawned()
    init, ticks = map(int, (shim.folder / "init").read_text().split())
    assert (start_ticks(init), int(stat_fields(init)[1])) == (ticks, shim.process.pid)
    assert int(stat_fields(pid)[1]) == shim.process.pid
    wait_until(
        lambda: len(os.listdir(f"/proc/{init}/fd")) == 2
    )  # what it waits for, and where it was told to
    assert b"opensesame" not in _memory_of(init)
    assert _own_bytes(init) <= _OWN_BYTES
    end(init)
    assert shim.ended()[:2] == ["signaled", "9"]


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_a_live_commands_shim_is_small(shims: Callable[..., Shim]) -> None:
    """What a thousand of them take; also after a large spec, and after a new supervisor."""
    shim = shims("plain")
    shim.spawn("/bin/true", env={f"V{number}": "x" * 1000 for number in range(1000)})
    shim.spawned()
    shim.ended()
    shim.release()
    shim.spawn("/bin/sleep", "300", env={f"V{number}": "x" * 30 for number in range(60)})
    shim.spawned()
    shim.take_over()
    assert _own_bytes(shim.process.pid) <= _OWN_BYTES


def _own_bytes(pid: int) -> int:
    """Return what is its own: pages of a file that was just compiled count as private and dirty, too."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


_FAILPOINTS = re.compile(r'hit\("(shim\.[a-z_]+)"\)')


def _failpoints(files: Iterable[Path]) -> set[str]:
    return {name for path in files for name in _FAILPOINTS.findall(path.read_text())}


def test_every_place_where_a_test_kills_it_is_tried() -> None:
    assert _failpoints(runner_sources()) == {"shim.kept", *_PLACES}


_PLACES = {
    # name: lines of the record, and whether the command runs
    "shim.received": (0, False),
    "shim.starting": (1, False),
    "shim.spawned": (1, True),
    "shim.recorded": (2, True),
    "shim.exiting": (2, True),
    "shim.exit_written": (3, True),
    "shim.reaped": (3, True),
}


@pytest.mark.parametrize("name", _PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_a_place_leaves_the_same_traces(
    shims: Callable[..., Shim], tmp_path: Path, kind: str, name: str
) -> None:
    lines, runs = _PLACES[name]
    token, ran = tmp_path / "token", tmp_path / "ran"
    token.touch()
    shim = shims(kind, env={"OUTLIVE_FAILPOINT": f"{name}@{token}"})
    shim.spawn("/bin/sh", "-c", f": > {ran}; exit 2")
    assert shim.wait() == -signal.SIGKILL
    assert not token.exists()
    assert _record(shim).count(b"\n") == lines
    if runs:
        wait_until(ran.exists)
    else:
        assert not ran.exists()


def test_a_failpoint_without_its_token_kills_nobody(shims: Callable[..., Shim], tmp_path: Path) -> None:
    shim = shims("plain", env={"OUTLIVE_FAILPOINT": f"shim.spawned@{tmp_path / 'none'}"})
    shim.spawn("/bin/true")
    shim.spawned()
    assert shim.ended() == ["exited", "0", "1"]


def test_a_command_outlives_a_shim_that_was_killed(shim: Shim) -> None:
    shim.spawn("/bin/sleep", "300")
    pid, _, _ = shim.spawned()
    shim.process.kill()
    shim.wait()
    assert is_alive(pid)
    with suppress(ConnectionRefusedError):
        sockets.connect_unix(str(shim.folder / "sock")).close()
    end(pid)


def test_a_torn_spec_fails_and_runs_nothing(shims: Callable[..., Shim]) -> None:
    whole = exec_spec(("/bin/true",))
    for spec in (b"", b"nonsense\n", whole[:20], whole.replace(b"-1 ", b"-9 ")):
        shim = shims("plain")
        shim.spawn(spec=spec)
        assert shim.supervisor.words() == ["failed", str(errno.EINVAL), "spec"], spec
