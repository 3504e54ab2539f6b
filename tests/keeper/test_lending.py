"""Descriptors that commands lend: they take neither the room of people outside nor the keeper's descriptors (issue 19, 1)."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.keeper.client import KeeperClient, KeeperRefused, new_id
from tests.keeper.house import House

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


def _lend_inside(house: House, *, count: int, garbage: tuple[bytes, ...] = ()) -> bytes:
    words = (sys.executable, "-I", "-S", "-c", _LENDER, house.layout.keeper_socket, str(count))
    code, out, err = house.run(*words, json.dumps([one.hex() for one in garbage]))
    assert code == 0, err
    return out


@pytest.mark.promise("A.inside")
def test_what_commands_lend_keeps_nobody_outside_from_lending(own_house: House, tmp_path: Path) -> None:
    answers = _lend_inside(own_house, count=300)
    assert 0 < answers.count(b"+") <= 64
    assert b"-" in answers
    given = tmp_path / "given"
    given.write_bytes(b"mine\n")
    process_id = new_id()
    with (
        KeeperClient(own_house.state_dir, ensure=own_house.ensure, role="cli") as lender,
        given.open() as file,
    ):
        lender.ask("lend", id=process_id, fds=[file.fileno()])
        assert own_house.run("/bin/cat", stdin="lent", process_id=process_id)[:2] == (0, b"mine\n")


@pytest.mark.promise("A.inside")
def test_a_process_lends_so_much_and_no_more(own_house: House) -> None:
    reading, writing = os.pipe()
    with KeeperClient(own_house.state_dir, ensure=own_house.ensure, role="cli") as lender:
        for _ in range(16):
            lender.ask("lend", id=new_id(), fds=[reading])
        with pytest.raises(KeeperRefused, match="Too many"):
            lender.ask("lend", id=new_id(), fds=[reading])
    for fd in (reading, writing):
        os.close(fd)


def test_what_another_process_has_lent_is_not_replaced(own_house: House) -> None:
    reading, writing = os.pipe()
    process_id = "0" * 26  # the first one that the lender names, too
    own_house.client.ask("lend", id=process_id, fds=[reading])
    assert _lend_inside(own_house, count=1) == b"-"
    os.write(writing, b"ours\n")
    os.close(writing)
    os.close(reading)
    assert own_house.run("/bin/cat", stdin="lent", process_id=process_id)[:2] == (0, b"ours\n")  # type: ignore[arg-type]


def test_garbage_with_descriptors_costs_the_keeper_none(own_house: House) -> None:
    own_house.wait_redundant()
    supervisor = own_house.supervisor()
    before = len(os.listdir(f"/proc/{supervisor}/fd"))
    garbage = (b"no message", b"J[]", b"J" + b"[" * 5_000, b"") * 10
    _lend_inside(own_house, count=1, garbage=garbage)
    own_house.wait_redundant()
    assert own_house.supervisor() == supervisor
    assert (
        len(os.listdir(f"/proc/{supervisor}/fd")) < before + 100
    )  # shims and their links come and go; 320 were sent
