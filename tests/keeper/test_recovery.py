"""A new supervisor serves before all shims have answered: what may be asked meanwhile, and what waits
(decision 139).
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlive.core.identity import ProcessId, id_to_bytes
from outlive.core.layout import Layout
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.process_table import Unrecovered
from outlive.protocols.keeper import Phase, encode_spec
from tests.keeper.client import new_id, until
from tests.keeper.house import House, is_paused, sh
from tests.support.processes import Gate, end

pytestmark = pytest.mark.usefixtures("stays_stopped")

_COUNTED = "echo ran >> {file}; {wait}; exit 21"

# Run by a command: waits for a gate, asks the keeper for its status, and writes down what it is answered.
_ASKS = """
import os, pathlib, socket, sys, time
gate, door, said = sys.argv[1:]
while not os.path.exists(gate):
    time.sleep(0.02)
keeper = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
keeper.settimeout(20)
try:
    keeper.connect(door)
    keeper.send(b'J{"op": "status", "req": 1}')
    answer = keeper.recv(65536)[1:]
except OSError as error:
    answer = b'{"error": "%s"}' % str(error).encode()
pathlib.Path(said + ".new").write_bytes(answer)
os.rename(said + ".new", said)
"""


@contextlib.contextmanager
def _unanswered(house: House, process_id: str, *victims: int) -> Iterator[None]:
    """Begin with a new supervisor whom one shim does not answer before the block is left."""
    house.wait_redundant()
    shim, supervisor = house.shim_of(process_id), house.supervisor()
    os.kill(shim, signal.SIGSTOP)
    try:
        until(lambda: is_paused(shim), "the shim to be stopped")
        house.client.bells.clear()
        for pid in (*victims, supervisor):
            end(pid)
        house.client.connect()
        yield
    finally:
        os.kill(shim, signal.SIGCONT)


def _counted(house: House, gate: Gate, file: Path) -> ProcessId:
    process_id = house.start(*sh(_COUNTED.format(file=file, wait=gate.wait)))
    until(file.exists, "the command to run")
    return process_id


def _finish(house: House, gate: Gate, process_id: str) -> None:
    gate.open()
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == 21
    assert not house.done(process_id)["holder_lost"]


@pytest.mark.thorough
def test_one_shim_that_does_not_answer_holds_up_no_word_about_the_others(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    silent = _counted(own_house, gate, tmp_path / "ran")
    others = [own_house.start(*sh(f"{gate.wait}; exit 21")) for _ in range(20)]
    with _unanswered(own_house, silent):
        new = own_house.start(*sh("exit 7"))
        for process_id in others:
            own_house.client.wait_bell(process_id, lambda bell: bell.phase == Phase.RUNNING, "it to be told")
        own_house.client.wait_done(new)
        assert own_house.status()["processes"] == 21
        own_house.client.wait_bell(silent, lambda _bell: True, "the doubtful one to be told")
        told = list(own_house.client.bells)  # in the order in which each was told first
        assert told.index(id_to_bytes(silent)) == 21
    own_house.client.wait_bell(silent, lambda bell: bell.phase == Phase.RUNNING, "it to be told")
    for process_id in (silent, *others):
        _finish(own_house, gate, process_id)
    assert own_house.client.vanished == []
    assert own_house.client.setbacks == []


@pytest.mark.thorough
def test_a_start_repeated_before_its_process_is_taken_over_starts_nothing(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    process_id = _counted(own_house, gate, tmp_path / "ran")
    pid = own_house.pid(process_id)
    raw = encode_spec(own_house.spec(*sh(_COUNTED.format(file=tmp_path / "ran", wait=gate.wait)))[1])
    with _unanswered(own_house, process_id):
        numbers = [
            own_house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw)) for _ in range(2)
        ]
        assert own_house.run(*sh("exit 8"))[0] == 8
        assert not any(own_house.client.has_reply(number) for number in numbers)
    for number in numbers:
        reply = own_house.client.reply(number)
        assert (reply["ok"], reply["existing"], reply["pid"]) == (True, True, pid)
    _finish(own_house, gate, process_id)
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.mark.thorough
def test_a_control_of_a_process_that_is_not_taken_over_waits_for_it(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    process_id = _counted(own_house, gate, tmp_path / "ran")
    with _unanswered(own_house, process_id):
        numbers = [own_house.client.send(op, id=process_id) for op in ("pause", "resume", "pause")]
        assert own_house.run(*sh("exit 8"))[0] == 8
        assert not any(own_house.client.has_reply(number) for number in numbers)
    assert all(own_house.client.reply(number)["ok"] for number in numbers)
    until(lambda: is_paused(own_house.pid(process_id)), "the command to be paused")
    own_house.client.ask("resume", id=process_id)
    _finish(own_house, gate, process_id)


@pytest.mark.thorough
def test_the_keeper_is_not_ended_while_something_may_live(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    process_id = _counted(own_house, gate, tmp_path / "ran")
    with _unanswered(own_house, process_id):
        asked = [own_house.client.send("end"), own_house.client.send("end", kill=True, within_s=0.1)]
        for number in asked:
            reply = own_house.client.reply(number)
            assert reply["error"] == "process_running"
            assert reply["details"] == {"processes": 1, "ids": [process_id]}
    # The stop was begun: it is carried out as soon as the process is taken over.
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) in {-signal.SIGTERM, -signal.SIGKILL}


@pytest.mark.thorough
@pytest.mark.promise("A.inside")
def test_a_command_whose_shim_has_not_answered_is_inside_all_the_same(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    """Its shim's session is that of a guardian that is gone: only its folder tells that it is ours."""
    said = tmp_path / "said"
    words = (sys.executable, "-c", _ASKS, str(gate.path), own_house.layout.keeper_socket, str(said))
    process_id = own_house.start(*words)
    with _unanswered(own_house, process_id, own_house.guardian()):
        gate.open()
        until(said.exists, "the command to be answered")
    assert json.loads(said.read_bytes())["error"] == "inside_process"
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == 0


def _waiting(tmp_path: Path) -> tuple[Loop, Unrecovered, bytes, list[str], Callable[[str, int, float], None]]:
    """Return an unrecovered process, what happened, and a function that has a request wait for it."""
    happened: list[str] = []
    process_id = new_id()
    loop = Loop(happened.append)
    unrecovered = Unrecovered(loop, Layout(str(tmp_path)), [process_id])
    key = id_to_bytes(process_id)

    def ask(name: str, size: int = 0, within_s: float = 60.0) -> None:
        unrecovered.wait(
            key,
            lambda: happened.append(name),
            late=lambda: happened.append(f"{name} is late"),
            size=size,
            within_s=within_s,
        )

    return loop, unrecovered, key, happened, ask


def test_requests_go_on_in_their_order_and_those_whose_time_is_over_are_late(tmp_path: Path) -> None:
    loop, unrecovered, key, happened, ask = _waiting(tmp_path)
    ask("first", 0, 60.0)
    ask("second", 0, 0.0)
    ask("third", 0, 60.0)
    while not happened:
        loop.turn()
    assert (happened, len(unrecovered)) == (["second is late"], 1)
    unrecovered.remove(key)
    assert happened[1:] == ["first", "third"]
    assert key not in unrecovered
    unrecovered.remove(key)
    assert len(happened) == 3


def test_requests_that_wait_hold_a_bounded_number_of_bytes(tmp_path: Path) -> None:
    _, unrecovered, key, happened, ask = _waiting(tmp_path)
    ask("large", 20 << 20, 60.0)
    ask("too much", 20 << 20, 60.0)
    ask("small", 1 << 10, 60.0)
    assert happened == ["too much is late"]
    unrecovered.remove(key)
    ask("large again", 20 << 20, 60.0)
    assert happened[1:] == ["large", "small"]
