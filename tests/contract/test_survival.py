"""Deaths: of servers, supervisors and guardians, in the middle of everything.

No byte, no exit code and no name is lost.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.client import Gap, Process
from tests.contract.places import Asker, Place
from tests.extensions.fleet.pairs import PATIENCE_S, output_of, wait_until
from tests.support.paced import PACED_CODE, Paced
from tests.support.processes import Marker, end, is_alive, is_stopped
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_PACED = Paced(rounds=300, burst=10)
_OUT, _ERR = _PACED.out, _PACED.err


def _kill(*pids: int | None) -> None:
    """Kill, and wait until they are dead: who is still dying takes what is sent to it, and never answers."""
    assert pids[0] is not None
    for pid in pids:
        if pid is not None:
            end(pid)
    wait_until(lambda: not any(pid is not None and is_alive(pid) for pid in pids))


def _supervisor(server: OutliveServer) -> None:
    _kill(server.keeper_status().supervisor_pid)


def _guardian(server: OutliveServer) -> None:
    wait_until(lambda: server.keeper_status().guardian_pid)
    _kill(server.keeper_status().guardian_pid)


def _everybody(server: OutliveServer) -> None:
    status = server.keeper_status()
    _kill(status.supervisor_pid, status.guardian_pid, server.pid)
    server.restart()


_BLOWS: dict[str, Callable[[OutliveServer], object]] = {
    "server": OutliveServer.restart,
    "supervisor": _supervisor,
    "guardian": _guardian,
    "everybody": _everybody,
}


class _Viewer(threading.Thread):
    """Follows one process through everything."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process
        self.seen = {"stdout": bytearray(), "stderr": bytearray()}
        self.error: BaseException | None = None
        self.end: int | None = None

    def run(self) -> None:
        try:
            follow = self.process.follow()
            for item in follow:
                assert not isinstance(item, Gap)
                self.seen[item.stream] += item.data
            self.end = follow.completion.returncode if follow.completion else None
        except BaseException as error:  # noqa: BLE001 -- told by the test's own thread
            self.error = error


@pytest.mark.promise("S4.12.docker", "S4.12.nodes.once")
@pytest.mark.parametrize("blow", _BLOWS)
def test_a_follow_goes_on_through_every_death(own_place: Place, blow: str) -> None:
    """Two blows to each server while output is on its way: every byte once, and the exit code."""
    with own_place.client() as asker:
        viewers = [_Viewer(asker.start(_PACED.argv)) for _ in range(2)]
        for viewer in viewers:
            viewer.start()
        for number in range(2):
            wait_until(lambda number=number: len(viewers[0].seen["stdout"]) > 12_000 * (number + 1))  # type: ignore[misc] # a bound number
            for server in own_place.servers:
                _BLOWS[blow](server)
        for viewer in viewers:
            viewer.join(60)
            assert viewer.error is None
            assert (bytes(viewer.seen["stdout"]), bytes(viewer.seen["stderr"])) == (_OUT, _ERR)
            assert viewer.end == PACED_CODE
            info = viewer.process.wait(PATIENCE_S, until="closed")
            assert (info.state, info.exit_code, info.has_gaps) == ("exited", PACED_CODE, False)
            assert output_of(viewer.process) == (_OUT, _ERR)


def _waiting(asker: Asker, marker: Marker) -> tuple[Process, Process, Process]:
    """Start a pipe, a terminal and a paused tree."""
    pipe = asker.start("echo early; read x; echo got $x; exit 5", stdin="pipe")
    terminal = asker.start("stty size; read x; stty size; exit 6", pty=True, rows=30, cols=90)
    paused = asker.start(f"{marker.sleep} & setsid {marker.sleep} & wait; exit 7")
    wait_until(lambda: len(marker.pids()) == 2)
    for process in (pipe, terminal):
        wait_until(lambda process=process: process.info().cursor.stdout >= 6)  # type: ignore[misc] # a bound process
    paused.pause()
    return pipe, terminal, paused


@pytest.mark.parametrize("blow", _BLOWS)
def test_input_terminals_and_pauses_survive(own_place: Place, marker: Marker, blow: str) -> None:
    """Afterwards they are written to, resized, resumed and ended as before."""
    with own_place.client() as asker:
        ids = [process.process_id for process in _waiting(asker, marker)]
    for server in own_place.servers:
        _BLOWS[blow](server)
    own_place.wait_connected()
    with own_place.client() as asker:
        pipe, terminal, paused = (asker.get(process_id) for process_id in ids)
        listed = {info.process_id: info.state for info in asker.client.list(active=True)}
        assert listed == {ids[0]: "running", ids[1]: "running", ids[2]: "paused"}
        assert all(map(is_stopped, marker.pids()))
        pipe.write(b"it\n")
        terminal.resize(40, 100)
        terminal.write(b"\r")
        assert pipe.wait(PATIENCE_S).exit_code == 5
        assert output_of(pipe)[0] == b"early\ngot it\n"
        assert terminal.wait(PATIENCE_S).exit_code == 6
        assert output_of(terminal)[0].split() == [b"30", b"90", b"40", b"100"]
        paused.resume()
        wait_until(lambda: not any(map(is_stopped, marker.pids())))
        paused.cancel(0.3)
        assert paused.wait(PATIENCE_S, until="closed").cause == "cancel"
        wait_until(lambda: not marker.pids())


def test_what_ends_while_no_server_runs_is_known_afterwards(own_place: Place, marker: Marker) -> None:
    """Exit codes, a timeout that came due, and what runs on."""
    gate = own_place.folder / "go"
    with own_place.client() as asker:
        ended = asker.start(f"until [ -e {gate} ]; do sleep .02; done; echo late; exit 9")
        timed = asker.start(f"{marker.sleep} & {marker.sleep}", timeout_s=1.5, grace_s=0.2)
        running = asker.start("read x; exit 3", stdin="pipe")
        assert running.info().state == "running"
        wait_until(lambda: len(marker.pids()) == 2)
    for server in own_place.servers:
        server.kill()
    gate.touch()
    wait_until(lambda: not marker.pids())
    for server in reversed(own_place.servers):
        server.start()
    own_place.wait_connected()
    with own_place.client() as asker:
        info = asker.get(ended.process_id).wait(PATIENCE_S, until="closed")
        assert (info.state, info.exit_code) == ("exited", 9)
        assert output_of(asker.get(ended.process_id)) == (b"late\n", b"")
        info = asker.get(timed.process_id).wait(PATIENCE_S)
        assert (info.cause, info.error) == ("timeout", "Command timed out after 1.5 seconds")
        again = asker.get(running.process_id)
        assert again.info().state == "running"
        again.close_stdin()
        assert again.wait(PATIENCE_S).exit_code == 3
        # A new start goes as before.
        assert asker.start("exit 4").wait(PATIENCE_S).exit_code == 4


@pytest.mark.root("a server's memory and descriptors are closed to its user")
def test_nothing_is_left_of_what_was_started(own_place: Place) -> None:
    """Starts and ends leave no process behind, and no descriptor of theirs in the keeper."""

    def running() -> int:
        return sum(server.keeper_status().processes for server in own_place.runners)

    def held() -> list[str]:
        links = []
        pids = [server.keeper_status().supervisor_pid for server in own_place.runners]
        for fd in (fd for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir()):
            with contextlib.suppress(OSError):
                links.append(os.readlink(fd))
        return [
            link for link in links if "pidfd" in link or "/processes/" in link or link.startswith("/dev/pt")
        ]

    with own_place.client() as asker:
        asker.start("true").wait(PATIENCE_S, until="closed")
        wait_until(lambda: running() == 0)
        wait_until(lambda: len(held()) <= len(own_place.runners))
        callers = held()  # a supervisor holds a pidfd of the server that is connected
        processes = [asker.start("sleep 300 & exec sleep 300", pty=number % 2 == 0) for number in range(30)]
        pids = [process.pid for process in processes]
        for process in processes:
            process.cancel(0)
        for process in processes:
            process.wait(PATIENCE_S, until="closed")
        wait_until(lambda: running() == 0)
        assert not any(is_alive(pid) for pid in pids if pid)
        wait_until(lambda: held() == callers)


def test_a_queue_goes_on_after_the_servers_death(own_place: Place) -> None:
    """What waited for its turn gets it, once."""
    with own_place.client() as asker:
        first = asker.start("read x; exit 3", stdin="pipe", group="one", group_limit=1)
        waiting = [asker.start(f"echo {number} >> turns; exit {number}", group="one") for number in (4, 5)]
        assert [process.info().state for process in waiting] == ["queued", "queued"]
    own_place.near.kill()
    own_place.near.start()
    own_place.wait_connected()
    with own_place.client() as asker:
        assert asker.get(waiting[1].process_id).info().state == "queued"
        asker.get(first.process_id).close_stdin()
        assert asker.get(first.process_id).wait(PATIENCE_S).exit_code == 3
        assert [asker.get(process.process_id).wait(PATIENCE_S).exit_code for process in waiting] == [4, 5]
    assert (own_place.folder / "turns").read_text() == "4\n5\n"
