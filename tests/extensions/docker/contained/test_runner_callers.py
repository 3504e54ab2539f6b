"""Who a minder in a container listens to: the holder of the supervisor's lock, and no command of this
machine.

A real runner in a PID namespace, in which every process outside has the number 0, and a real keeper.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.extensions.docker.folders import prepare_hand
from outlive.extensions.docker.runner import RunnerHandle, SocketHandover, mark_of
from outlive.kernel.processes import children
from outlive.kernel.sockets import connect_own
from tests.extensions.docker.contained.house import CONTAINER, UNSHARE, ContainedHouse
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.run_mark import marked

pytestmark = [
    pytest.mark.root("only root may make a PID namespace"),
    pytest.mark.promise("A.keeper"),
]

# What a process of the same user does that holds no lock: says everything, hands descriptors over, and
# listens.
_KNOCKER = """
import array, json, os, socket, sys, time
heard = []
for path in json.loads(sys.argv[1]):
    for said in json.loads(sys.argv[2]):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.settimeout(40)
            folder, _, name = path.rpartition("/")
            os.chdir(folder)  # the whole path may be longer than sockets take
            for _ in range(800):
                try:
                    link.connect(name)
                    break
                except BlockingIOError:  # a full backlog: those before us are asked first
                    time.sleep(0.05)
            null = os.open("/dev/null", os.O_RDWR)
            answers = []
            try:
                for word in said:
                    fds = array.array("i", [] if word == "proved" else [null] * 4)
                    link.sendmsg([word.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else [])
            except OSError:
                pass
            while True:
                try:
                    message, ancillary, _, _ = link.recvmsg(4096, 1024)
                except ConnectionResetError:
                    continue
                if not message:
                    break
                answers.append([message.decode(), len(ancillary)])
            os.close(null)
        heard.append(answers)
print(json.dumps(heard))
"""  # noqa: E501 -- lines of a table, or of another language
# A command that has put a socket of its own into the place of a process's, and passes on what comes from
# either side.
_GO_BETWEEN = """
import os, select, socket, sys
os.chdir(sys.argv[1])
os.rename("sock", "real")
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind("sock")
listener.listen(64)
print("listening", flush=True)
while True:
    supervisor, _ = listener.accept()
    minder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    minder.connect("real")
    ends = {supervisor: minder, minder: supervisor}
    while ends:
        for one in select.select(list(ends), [], [])[0]:
            try:
                message, fds, _, _ = socket.recv_fds(one, 65536, 16)
            except OSError:
                message, fds = b"", []
            if one is minder:
                print("minder", message.decode(), len(fds), flush=True)
            else:
                print("supervisor", message.decode(), flush=True)
            if not message:
                ends = {}
                break
            ends[one].send(message)
    supervisor.close()
    minder.close()
"""
_WORDS = (
    "hello 1",
    "release",
    "quit",
    "close oe",
    "terminal 1 1",
    "spawn IOE /",
    "go 1 1 1",
)


@pytest.fixture
def house(binary: Path, tmp_path: Path) -> Iterator[ContainedHouse]:
    """A keeper with one container."""
    with ContainedHouse(tmp_path / "state", runner=binary) as kept:
        yield kept


def _knock(*paths: str) -> list[list[list[object]]]:
    said = (
        [[word] for word in _WORDS]
        + [["proved", word] for word in _WORDS]
        + [[*_WORDS], ["prove 1", "proved"]]
    )
    words = [sys.executable, "-S", "-c", _KNOCKER, json.dumps(paths), json.dumps(said)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120, env=marked())
    heard = json.loads(done.stdout)
    assert isinstance(heard, list)
    assert len(heard) == len(paths) * len(said)
    return heard


def _assert_nothing_was_told(heard: list[list[list[object]]]) -> None:
    for answers in heard:
        assert len(answers) <= 1
        for words, descriptors in answers:
            verb, number = str(words).split()
            assert (verb, number.isdigit(), descriptors) == ("prove", True, 0)
    assert any(heard), "it was asked"
    questions = [answers[0][0] for answers in heard if answers]
    assert len(set(questions)) == len(questions), "never the same one twice"


def test_a_process_without_the_lock_is_told_nothing_and_changes_nothing(house: ContainedHouse) -> None:
    one, other = house.start("/bin/cat", stdin="pipe"), house.start("/bin/cat", stdio="pty")
    pids = [house.pid(one), house.pid(other)]
    before = [(house.folder(each) / "pid").read_bytes() for each in (one, other)]
    paths = [str(house.folder(each) / "sock") for each in (one, other)]
    _assert_nothing_was_told(_knock(*paths, house.layout.runner_socket(CONTAINER)))
    assert [house.pid(one), house.pid(other)] == pids
    assert [(house.folder(each) / "pid").read_bytes() for each in (one, other)] == before
    house.client.ask("write", payload=b"still here\n", id=one)
    assert house.wait_output(one, 11) == b"still here\n"
    house.client.ask("write", payload=b"typed\r", id=other)
    assert b"typed" in house.wait_output(other, 5)
    for each in (one, other):
        house.client.ask("stop", id=each, cause=1, grace_s=0.0)
        house.client.wait_done(each)
        assert house.wire_code(each) in {-9, -15}


def test_the_next_supervisor_is_served_among_all_that_knock(house: ContainedHouse) -> None:
    one = house.start("/bin/cat", stdin="pipe")
    pid, path = house.pid(one), str(house.folder(one) / "sock")
    waiting = []  # and say nothing: more than are asked at a time, and more than wait in the backlog
    for _ in range(12):
        with contextlib.suppress(BlockingIOError):
            waiting.append(connect_own(path))
    for _ in range(3):
        house.kill(house.supervisor())
        _assert_nothing_was_told(_knock(path))
        house.wait_redundant()
    assert house.pid(one) == pid
    house.client.ask_surely("write", payload=b"whole\n", id=one)
    assert house.wait_output(one, 6) == b"whole\n"
    _assert_nothing_was_told(_knock(path))
    house.client.ask_surely("close_stdin", id=one)
    house.client.wait_done(one)
    assert house.wire_code(one) == 0
    assert house.out(one) == b"whole\n"
    for link in waiting:
        link.close()


def test_the_supervisors_lock_is_whole_again_afterwards(house: ContainedHouse) -> None:
    for _ in range(20):
        assert house.run("/bin/true") == (0, b"", b"")
    locks = [line for line in Path("/proc/locks").read_text().splitlines() if _is_of(line, house)]
    assert len(locks) == 1
    assert locks[0].split()[-2:] == ["0", "EOF"]


def _is_of(line: str, house: ContainedHouse) -> bool:
    return line.split()[-3].endswith(f":{Path(house.layout.supervisor_lock).stat().st_ino}")


def test_a_command_that_passes_questions_on_is_proved_nothing(house: ContainedHouse) -> None:
    """The supervisor's answer is for a minder: not for a command that has taken a minder's place."""
    victim = house.start("/bin/cat", stdin="pipe")
    folder = str(house.folder(victim))
    process_id, spec = House.spec(house, sys.executable, "-S", "-c", _GO_BETWEEN, folder)
    house.client.start(spec, process_id=process_id)
    house.wait_output(process_id, 10)
    house.kill(house.supervisor())
    until(lambda: b"minder prove " in house.out(process_id), "the supervisor to connect")
    until(lambda: house.out(process_id).count(b"minder prove ") > 2, "that it tries again")
    assert b"proved" not in house.out(process_id)
    assert b"state own" not in house.out(process_id)
    house.client.ask_surely("stop", id=process_id, cause=1, grace_s=0.0)


def test_a_runner_takes_no_other_lock_than_the_daemon_has_named(binary: Path, tmp_path: Path) -> None:
    """A command may listen in the folder in which a server hands over, and has locks of its own."""
    layout = Layout(str(tmp_path))
    folder = Path(layout.container(CONTAINER))
    folder.mkdir(parents=True)
    prepare_hand(layout, CONTAINER)
    known = f"--lock={mark_of(layout.supervisor_lock)}"
    words = [*UNSHARE, str(binary), "serve", "--handed", known, "hand/hand.sock"]
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, env=marked()) as process:
        try:
            until(lambda: children(process.pid), "the first process of the namespace")
            (runner,) = children(process.pid)
            for _ in range(2):  # the second time it has not taken what it was handed before
                _hand_over_once(layout, runner, str(tmp_path / "other.lock"))
                assert not _listens(layout)
            until(lambda: _hand_over_once(layout, runner, layout.supervisor_lock), "that it comes")
            until(lambda: _listens(layout), "that it listens")
        finally:
            process.kill()


def _hand_over_once(layout: Layout, runner: int, lock: str) -> bool:
    before = _inode(layout)

    def has_come() -> bool:
        handing.turn(runner)
        return _inode(layout) != before

    with closing(SocketHandover(layout, CONTAINER, lock=lock)) as handing:
        until(has_come, "the runner")
    return True


def _inode(layout: Layout) -> int:
    try:
        return os.stat(layout.runner_socket(CONTAINER)).st_ino
    except FileNotFoundError:
        return 0


def _listens(layout: Layout) -> bool:
    try:
        connect_own(layout.runner_socket(CONTAINER)).close()
    except OSError:
        return False
    return True


async def test_a_server_learns_that_the_runner_lives_and_no_more(house: ContainedHouse) -> None:
    door = RunnerHandle(house.layout.runner_socket(CONTAINER), house.runner, connect=connect_own)
    try:
        assert door.is_open()
        assert await door.answers(20.0)
    finally:
        door.close()
