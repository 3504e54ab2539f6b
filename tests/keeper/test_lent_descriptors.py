"""Descriptors that commands lend: they take neither the room of people outside nor the keeper's descriptors
(issue 19, 1).
"""

import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.keeper.client import KeeperClient, KeeperRefused, new_id
from tests.keeper.house import House, sh
from tests.support.processes import Gate

# A command of the keeper's that lends what it can, many connections after another, and keeps them open.
_LENDER = """
import json, os, socket, sys
path, count, packets = sys.argv[1], int(sys.argv[2]), [bytes.fromhex(one) for one in json.loads(sys.argv[3])]
null = os.open("/dev/null", os.O_RDONLY)
lent, links = 0, []
def connect():
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(20)
    link.connect(path)
    return link
for number in range(count):
    if number % 20 == 0 and (number == 0 or not os.fork()):
        links = []
    elif number % 20 == 0:
        os.wait()
        break
    links.append(connect())
    said = b'J{"req":1,"op":"lend","id":"%s"}' % (b"%026d" % number)
    socket.send_fds(links[-1], [said], [null])
    answer = links[-1].recv(4096)
    lent += b'"ok": true' in answer or b'"ok":true' in answer
    os.write(1, b"+" if b'"error"' not in answer else b"-")
for packet in packets:
    link = connect()
    socket.send_fds(link, [packet], [null] * 8)
    link.close()
"""

# One that lends a file 16 times, and keeps the connections until a gate opens.
_LENDER_THAT_STAYS = """
import os, socket, sys, time
path, name, gate = sys.argv[1:]
mine, links = os.open(name, os.O_RDONLY), []
for number in range(16):
    links.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    links[-1].settimeout(20)
    links[-1].connect(path)
    socket.send_fds(links[-1], [b'J{"req":1,"op":"lend","id":"%s"}' % (b"%026d" % number)], [mine])
    assert b'"error"' not in links[-1].recv(4096)
    os.write(1, b"+")
while not os.path.exists(gate):
    time.sleep(0.01)
"""


# One whose many children each connect, lend and stay; prints once how many may.
_FLOOD = """
import os, socket, sys, time
path, gate = sys.argv[1:]
null = os.open("/dev/null", os.O_RDONLY)
reading, writing = os.pipe()
for number in range(60):
    if os.fork():
        continue
    links = []
    for turn in range(8):
        said = b"-"
        try:
            links.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            links[-1].settimeout(20)
            links[-1].connect(path)
            name = b"%026d" % (number * 8 + turn)
            socket.send_fds(links[-1], [b'J{"req":1,"op":"lend","id":"%s"}' % name], [null])
            answer = links[-1].recv(4096)
            said = b"+" if answer and b'"error"' not in answer else b"-"
        except OSError:
            pass
        os.write(writing, said)
    while not os.path.exists(gate):
        time.sleep(0.05)
    os._exit(0)
said = b""
while len(said) < 480:
    said += os.read(reading, 480)
print(said.count(b"+"), flush=True)
while not os.path.exists(gate):
    time.sleep(0.01)
"""

# One that lends a file for an id, and keeps the connection until a gate opens.
_LENDER_OF_ONE = """
import os, socket, sys, time
path, name, process_id, gate = sys.argv[1:]
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.settimeout(20)
link.connect(path)
said = b'J{"req":1,"op":"lend","id":"%s"}' % process_id.encode()
socket.send_fds(link, [said], [os.open(name, os.O_RDONLY)])
print(link.recv(4096).decode(), flush=True)
while not os.path.exists(gate):
    time.sleep(0.01)
"""


def _lend_inside(house: House, *, count: int, garbage: tuple[bytes, ...] = ()) -> bytes:
    words = (sys.executable, "-I", "-S", "-c", _LENDER, house.layout.keeper_socket, str(count))
    code, out, err = house.run(*words, json.dumps([one.hex() for one in garbage]))
    assert code == 0, err
    return out


def _lender(house: House) -> KeeperClient:
    """Return a connection that may lend one descriptor at a time."""
    return KeeperClient(house.state_dir, ensure=house.ensure, role="cli")


@contextlib.contextmanager
def _packed(*packets: tuple[bytes, list[int]]) -> Iterator[int]:
    """Yield a socket with packets of descriptors, each beside its number there."""
    ours, packed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with packed:
        with ours:
            ours.setblocking(False)
            for words, fds in packets:
                socket.send_fds(ours, [words], fds)
        yield packed.fileno()


@contextlib.contextmanager
def _lending(house: House, process_id: str, *, stdin: int, packed: int) -> Iterator[None]:
    with _lender(house) as lender:
        lender.ask("lend", id=process_id, fds=[stdin, packed])
        yield


def _holds(house: House, fd: int, *, pid: int | None = None) -> int:
    """Return how many descriptors the supervisor, or another process, has of the file behind one of ours."""
    wanted = os.fstat(fd)
    folder = f"/proc/{pid or house.supervisor()}/fd"
    found = 0
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):  # closed meanwhile
            one = os.stat(f"{folder}/{name}")
            found += (one.st_dev, one.st_ino) == (wanted.st_dev, wanted.st_ino)
    return found


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.promise("A.lending")
def test_nothing_is_taken_for_an_id_that_no_server_has_announced(own_house: House) -> None:
    """It stays with its lender, from outside and from inside, until the server asks for that start."""
    reading, writing = os.pipe()
    process_id = new_id()
    with contextlib.ExitStack() as lenders:
        for name in (process_id, *(new_id() for _ in range(7))):
            lenders.enter_context(_lender(own_house)).ask("lend", id=name, fds=[reading])
        assert _holds(own_house, reading) == 0
        started = own_house.start("/bin/cat", process_id=process_id, stdin="lent")
        assert _holds(own_house, reading) == 0, "the command has it, and nobody else"
        os.write(writing, b"mine\n")
        os.close(writing)
        own_house.client.wait_done(started)
        assert own_house.out(started) == b"mine\n"
    os.close(reading)


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.promise("A.lending")
def test_nothing_is_taken_of_what_a_command_lends_unasked(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.write_bytes(b"theirs\n")
    words = (own_house.layout.keeper_socket, str(given), str(gate.path))
    process_id = own_house.start(sys.executable, "-I", "-S", "-c", _LENDER_THAT_STAYS, *words)
    own_house.wait_output(process_id, 16)
    with given.open() as file:
        assert _holds(own_house, file.fileno()) == 0
    gate.open()
    own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), own_house.out(process_id)) == (0, b"+" * 16)


@pytest.mark.promise("A.inside")
def test_what_commands_lend_keeps_nobody_outside_from_lending(own_house: House, tmp_path: Path) -> None:
    answers = _lend_inside(own_house, count=300)
    assert 0 < answers.count(b"+") <= 16
    assert b"-" in answers
    given = tmp_path / "given"
    given.write_bytes(b"mine\n")
    process_id = new_id()
    with _lender(own_house) as lender, given.open() as file:
        lender.ask("lend", id=process_id, fds=[file.fileno()])
        assert own_house.run("/bin/cat", stdin="lent", process_id=process_id)[:2] == (0, b"mine\n")


@pytest.mark.promise("A.lending")
def test_a_commands_children_take_no_other_commands_place(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    """They filled the 64 places of commands, and 256 connections, 16 for each child."""
    python = (sys.executable, "-I", "-S", "-c")
    flood = own_house.start(*python, _FLOOD, own_house.layout.keeper_socket, str(gate.path))
    assert 0 < int(own_house.wait_output(flood, 2)) <= 16
    given = tmp_path / "given"
    given.write_bytes(b"mine\n")
    nested = new_id()
    words = (own_house.layout.keeper_socket, str(given), nested, str(gate.path))
    lender = own_house.start(*python, _LENDER_OF_ONE, *words)
    assert b"error" not in own_house.wait_output(lender, 10)
    assert own_house.run("/bin/cat", stdin="lent", process_id=nested)[:2] == (0, b"mine\n")
    gate.open()
    for one in (flood, lender):
        own_house.client.wait_done(one)


@pytest.mark.promise("A.inside")
def test_a_process_lends_so_much_and_no_more(own_house: House) -> None:
    reading, writing = os.pipe()
    with contextlib.ExitStack() as lenders, _lender(own_house) as lender:
        for _ in range(16):
            lenders.enter_context(_lender(own_house)).ask("lend", id=new_id(), fds=[reading])
        with pytest.raises(KeeperRefused, match="Too many"):
            lender.ask("lend", id=new_id(), fds=[reading])
    for fd in (reading, writing):
        os.close(fd)


def test_what_another_process_has_lent_is_not_replaced(own_house: House) -> None:
    reading, writing = os.pipe()
    process_id = "0" * 26  # the first one that the lender names, too
    with _lender(own_house) as lender:
        lender.ask("lend", id=process_id, fds=[reading])
        assert _lend_inside(own_house, count=1) == b"-"
        os.write(writing, b"ours\n")
        os.close(writing)
        os.close(reading)
        assert own_house.run("/bin/cat", stdin="lent", process_id=process_id)[:2] == (0, b"ours\n")  # type: ignore[arg-type]


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_garbage_with_descriptors_costs_the_keeper_none(own_house: House) -> None:
    own_house.wait_redundant()
    supervisor = own_house.supervisor()
    garbage = (b"no message", b"J[]", b"J" + b"[" * 5_000, b"") * 10
    with open(os.devnull) as null:
        before = _holds(own_house, null.fileno())
        _lend_inside(own_house, count=1, garbage=garbage)
        own_house.wait_redundant()
        assert own_house.supervisor() == supervisor
        assert _holds(own_house, null.fileno()) < before + 20, "320 were sent"


@pytest.fixture
def null() -> Iterator[int]:
    """A standard input."""
    with open(os.devnull) as file:
        yield file.fileno()


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.parametrize("stdin", ["none", "lent"])
def test_the_command_alone_gets_what_was_packed(
    own_house: House, tmp_path: Path, null: int, stdin: str
) -> None:
    (tmp_path / "given").write_bytes(b"mine\n")
    process_id = new_id()
    reading, writing = os.pipe()
    with (tmp_path / "given").open() as file, _packed((b"9", [file.fileno()]), (b"12", [reading])) as packed:
        with _lending(own_house, process_id, stdin=null, packed=packed):
            assert _holds(own_house, file.fileno()) == 0, "it stays with its lender until the start"
            line = "cat <&9; cat /dev/fd/12"
            own_house.start(*sh(line), process_id=process_id, stdin=stdin)
        own_house.wait_output(process_id, 5)
        own_house.wait_redundant()
        keeper = (own_house.supervisor(), own_house.guardian(), *own_house.shims())
        assert own_house.shim_of(process_id) in keeper
        for pid in keeper:
            assert [_holds(own_house, fd, pid=pid) for fd in (file.fileno(), packed, reading)] == [0, 0, 0]
    os.close(reading)
    os.write(writing, b"yours\n")
    os.close(writing)
    own_house.client.wait_done(process_id)
    assert own_house.out(process_id) == b"mine\nyours\n"


@pytest.mark.parametrize(
    "words",
    [b"0", b"1", b"2", b"-1", b"4294967305", b"1073741824", b"9" * 40, b"x", b" ", b"9\0", b"9" * 9000],
)
def test_no_number_of_a_packet_does_harm(house: House, null: int, words: bytes) -> None:
    """Neither do packets without a descriptor, with more than one, and one behind them counts."""
    packets = [(words, [null]), (b"9", []), (b"11", [null, null]), (b"8", [null])]
    process_id = new_id()
    with _packed(*packets) as packed, _lending(house, process_id, stdin=null, packed=packed):
        house.start(*sh("echo out; ls /proc/self/fd"), process_id=process_id)
    house.client.wait_done(process_id)
    assert house.out(process_id).split() == [b"out", b"0", b"1", b"2", b"3", b"8"]


def test_something_else_than_packets_does_no_harm(house: House, null: int) -> None:
    """Nor a socket whose other end goes on to send."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with ours, theirs:
        with contextlib.suppress(BlockingIOError):
            while True:
                socket.send_fds(ours, [b"9"], [null])
        for packed in (null, theirs.fileno()):
            process_id = new_id()
            with _lending(house, process_id, stdin=null, packed=packed):
                house.start(*sh("echo out"), process_id=process_id)
            house.client.wait_done(process_id)
            assert (house.wire_code(process_id), house.out(process_id)) == (0, b"out\n")


def test_a_supervisor_that_dies_before_the_start_has_taken_nothing(own_house: House, null: int) -> None:
    """Without its standard input nothing starts; what else was lent is missed by the command itself."""
    reading, writing = os.pipe()
    with_stdin, without = new_id(), new_id()
    with contextlib.ExitStack() as lent:
        for process_id in (with_stdin, without):
            packed = lent.enter_context(_packed((b"9", [writing])))
            lent.enter_context(_lending(own_house, process_id, stdin=null, packed=packed))
        own_house.kill(own_house.supervisor())
        with pytest.raises(KeeperRefused, match="stdin_lost"):
            own_house.start("/bin/cat", process_id=with_stdin, stdin="lent")
        own_house.start(*sh("test ! -e /proc/self/fd/9"), process_id=without)
    os.close(writing)
    own_house.client.wait_done(without)
    assert own_house.wire_code(without) == 0
    assert os.read(reading, 1) == b"", "nothing keeps it open"
    os.close(reading)


@pytest.mark.parametrize("point", ["start.journaled", "start.committed", "start.given", "shim.received"])
def test_whatever_dies_with_them_in_its_hands_keeps_none_open(
    build_house: Callable[..., House], tmp_path: Path, null: int, point: str
) -> None:
    token = tmp_path / "token"
    house = build_house(OUTLIVE_FAILPOINT=f"{point}@{token}")
    house.wait_redundant()
    reading, writing = os.pipe()
    process_id = new_id()
    with _packed((b"9", [writing])) as packed, _lending(house, process_id, stdin=null, packed=packed):
        os.close(writing)
        token.touch()
        with contextlib.suppress(KeeperRefused):  # whether it ran is not known where its shim has died
            house.start(*sh("echo mine >&9"), process_id=process_id)
            house.client.wait_done(process_id)
    assert not token.exists()
    with open(reading, "rb") as file:
        assert file.read() in {b"", b"mine\n"}, "the end comes"
