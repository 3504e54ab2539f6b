"""Cuts and kills between a server and its node: every byte once, in order, and the exit codes right."""

import os
import random
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from outlive.client import BackendUnavailable, Client, Output, Process
from outlive.core.identity import RANDOM_BYTES, new_process_id
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, a_token, node_state, output_of, wait_until
from tests.support.paced import PACED_CODE, Paced
from tests.support.processes import is_alive
from tests.support.server import OutliveServer, free_port

FAR = "far"
_PACED = Paced(rounds=400, burst=20)
_OUT, _ERR = _PACED.out, _PACED.err

pytestmark = pytest.mark.thorough


def _check(process: Process) -> None:
    """The whole output on disk here, and the end."""
    info = process.wait(60, until="closed")
    assert (info.state, info.exit_code, info.is_closed) == ("exited", PACED_CODE, True)
    assert (info.cursor.stdout, info.cursor.stderr) == (len(_OUT), len(_ERR))
    assert output_of(process) == (_OUT, _ERR)


def _ordered(process: Process) -> None:
    """In the recorded order the two streams go on side by side, as they were written."""
    cursor, numbers = "0", bytearray()
    lines: list[bytes] = []
    while True:
        page = process.read(cursor)
        for item in page.items:
            assert isinstance(item, Output)
            numbers += item.data
        cursor = str(page.cursor)
        if not page.has_more and page.is_complete:
            break
    lines = bytes(numbers).split(b"\n")
    assert len(lines) == 40_401


@pytest.mark.promise("S4.12.nodes.once")
@pytest.mark.parametrize("seed", range(3))
def test_a_link_that_is_cut_at_random_points_costs_nothing(own_pair: Pair, seed: int) -> None:
    """The proxy cuts each connection after a random number of bytes, many times."""
    chance = random.Random(seed)
    # Output comes in messages of up to 256 KiB, and half a message is none. Where every connection ended
    # within 60 kB, a machine that was slow to write had to be lucky some eighty times: more than the minute
    # for which the end is waited.
    own_pair.proxy.chop = lambda: chance.randrange(2_000, 300_000 if chance.random() < 0.25 else 60_000)
    own_pair.proxy.cut()
    own_pair.proxy.heal()
    with own_pair.client() as client:
        processes: list[Process] = []
        while len(processes) < 3:
            try:
                processes.append(client.start(_PACED.argv, backend=FAR))
            except BackendUnavailable:
                continue
        for process in processes:
            _check(process)
            _ordered(process)
    assert own_pair.proxy.cuts > 3


@pytest.mark.promise("S4.12.nodes.once", "S4.12.nodes.away")
def test_a_node_that_is_away_is_unknown_and_true_when_it_is_back(own_pair: Pair) -> None:
    """Meanwhile verbs say so, others are served, and nothing is ended or forgotten."""
    with own_pair.client() as client:
        process = client.start("echo begun; read x; echo got $x; exit 5", backend=FAR, stdin="pipe")
        wait_until(lambda: process.info().cursor.stdout == 6)
        own_pair.proxy.cut()
        wait_until(lambda: process.info().is_unknown)
        info = process.info()
        assert (info.state, info.is_complete, info.is_reachable) == ("running", False, False)
        for verb in (
            process.pause,
            process.cancel,
            lambda: process.write(b"x\n"),
            lambda: process.signal("TERM"),
        ):
            with pytest.raises(BackendUnavailable) as caught:
                verb()
            assert caught.value.code == "node_unavailable"
        with pytest.raises(BackendUnavailable):
            client.start("true", backend=FAR)
        assert output_of(client.start("echo here")) == (b"here\n", b"")
        with own_pair.far_client() as far:
            far.get(process.process_id).write(b"it\n")
            far.get(process.process_id).wait(PATIENCE_S)
        own_pair.proxy.heal()
        info = process.wait(PATIENCE_S)
        assert (info.exit_code, info.is_unknown, info.is_reachable) == (5, False, True)
        assert output_of(process) == (b"begun\ngot it\n", b"")


@pytest.mark.promise("S4.12.nodes.once")
@pytest.mark.parametrize("blow", ["near", "far", "far supervisor", "near keeper", "both"])
def test_killed_servers_cost_no_byte(own_pair: Pair, blow: str) -> None:
    """SIGKILL while output is on its way; whoever died is started again."""
    with own_pair.client() as client:
        process = client.start(_PACED.argv, backend=FAR)
        wait_until(lambda: process.info().cursor.stdout > 10_000)
    for _ in range(2):
        if blow in {"near", "both"}:
            own_pair.near.kill()
        if blow in {"far", "both"}:
            own_pair.far.restart()
        if blow == "far supervisor":
            pid = own_pair.far.keeper_status().supervisor_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        if blow == "near keeper":
            pid = own_pair.near.keeper_status().supervisor_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        if blow in {"near", "both"}:
            own_pair.near.start()
    with own_pair.client() as client:
        again = client.get(process.process_id)
        _check(again)
        assert client.list(active=True) == []


@pytest.mark.promise("S4.12.nodes.away")
def test_a_server_starts_while_its_node_is_away(own_pair: Pair) -> None:
    """It serves at once.

    What runs there is unknown, neither lost nor forgotten, and is followed when the node is back.
    """
    with own_pair.client() as client:
        process = client.start("echo one; read x; echo two; exit 3", backend=FAR, stdin="pipe")
        local = client.start("read x", stdin="pipe")
        wait_until(lambda: process.info().cursor.stdout == 4)
    own_pair.near.kill()
    own_pair.proxy.cut()
    own_pair.near.start()
    with own_pair.client() as client:
        info = client.get(process.process_id).info()
        assert (info.state, info.is_unknown, info.cursor.stdout) == ("running", True, 4)
        assert not info.is_reachable
        assert client.get(local.process_id).info().is_reachable
        assert not client.get(local.process_id).info().is_unknown
        assert {one.process_id for one in client.list(active=True)} == {process.process_id, local.process_id}
        own_pair.proxy.heal()
        wait_until(lambda: not client.get(process.process_id).info().is_unknown)
        client.get(process.process_id).write(b"\n")
        assert client.get(process.process_id).wait(PATIENCE_S).exit_code == 3
        assert output_of(client.get(process.process_id)) == (b"one\ntwo\n", b"")
        client.get(local.process_id).cancel(0)


@pytest.mark.promise("S4.12.nodes.once")
def test_what_is_removed_on_the_node_while_descendants_are_followed_is_closed_here(own_pair: Pair) -> None:
    """Also while the link is cut, and where the server was killed since: else it would be open for ever, here
    and after each restart.
    """
    with own_pair.client() as client, own_pair.far_client() as far:
        first, second = [client.start("sleep 1000 & echo hi", backend=FAR) for _ in range(2)]
        for one in (first, second):
            assert one.wait(PATIENCE_S).exit_code == 0
            assert not one.info().is_closed
        far.remove(first.process_id, force=True)
        first.wait(PATIENCE_S, until="closed")
        wait_until(lambda: first.info().descendants == 0)  # its streams are closed before its tree is gone
        own_pair.proxy.cut()
        far.remove(second.process_id, force=True)
    own_pair.near.restart()
    own_pair.proxy.heal()
    with own_pair.client() as client:
        again = client.get(second.process_id)
        info = again.wait(PATIENCE_S, until="closed")
        assert (info.exit_code, info.descendants) == (0, 0)
        assert output_of(again) == (b"hi\n", b"")
        client.remove(second.process_id)


def test_an_end_that_came_while_everybody_here_was_away_is_found(own_pair: Pair) -> None:
    """The near server is dead when the process ends there."""
    with own_pair.client() as client:
        process = client.start("echo one; sleep .5; echo two; exit 6", backend=FAR)
    own_pair.near.kill()
    with own_pair.far_client() as far:
        far.get(process.process_id).wait(PATIENCE_S)
    own_pair.near.start()
    with own_pair.client() as client:
        info = client.get(process.process_id).wait(PATIENCE_S)
        assert info.exit_code == 6
        assert output_of(client.get(process.process_id)) == (b"one\ntwo\n", b"")


def test_a_node_that_no_setting_names_any_more_is_unknown(own_pair: Pair) -> None:
    """Its processes stay, and are the truth again when the setting is back."""
    with own_pair.client() as client:
        process = client.start("read x; exit 4", backend=FAR, stdin="pipe")
    own_pair.near.kill()
    other = OutliveServer(own_pair.near.state_dir).start()
    try:
        with Client(other.state_dir, start_server=False) as client:
            info = client.get(process.process_id).info()
            assert (info.state, info.is_unknown) == ("running", True)
            assert "no setting" in node_state(other)["reason"]
            with pytest.raises(BackendUnavailable):
                client.get(process.process_id).cancel()
    finally:
        other.stop()
    own_pair.near.start()
    own_pair.connected()
    with own_pair.client() as client:
        process = client.get(process.process_id)
        wait_until(lambda: not process.info().is_unknown)
        process.close_stdin()
        assert process.wait(PATIENCE_S).exit_code == 4


@pytest.mark.promise("S4.12.nodes.once")
@pytest.mark.parametrize("seed", range(4))
def test_a_start_whose_answer_was_lost_runs_once(own_pair: Pair, tmp_path: Path, seed: int) -> None:
    """The near server dies at a random moment of many starts; each that was put down runs exactly once."""
    chance = random.Random(seed)
    marks = tmp_path / "marks"
    marks.mkdir()
    asked: list[str] = []

    def start_many() -> None:
        with Client(own_pair.near.state_dir, start_server=False, patience_s=0.2) as client:
            for number in range(200):
                process_id = new_process_id(
                    1_700_000_000_000_000_000 + seed * 10**15 + number * 10**6, os.urandom(RANDOM_BYTES)
                )
                asked.append(process_id)
                try:
                    client.start(f"echo x >> {marks}/{process_id}", backend=FAR, process_id=process_id)
                except BackendUnavailable:
                    return

    thread = threading.Thread(target=start_many)
    thread.start()
    wait_until(lambda: len(asked) > 3)
    time.sleep(chance.random() * 0.1)
    own_pair.near.kill()
    thread.join(20)
    own_pair.near.start()
    own_pair.connected()
    with own_pair.client() as client:
        wait_until(lambda: not client.list(active=True))
        known = {str(one.process_id): one for one in client.list(limit=1000)}
    ran = {path.name: path.read_text() for path in marks.iterdir()}
    assert set(ran.values()) <= {"x\n"}
    assert set(ran) <= set(known)
    assert all(info.exit_code == 0 for one, info in known.items() if one in ran)
    assert all(one in ran for one, info in known.items() if info.exit_code == 0)


def test_a_wrong_token_is_said_clearly(own_pair: Pair, tmp_path: Path) -> None:
    """In the node's state and in the error, and the server serves what is here."""
    tokens = tmp_path / "wrong"
    tokens.touch(mode=0o600)
    tokens.write_text(f"far {a_token(own_pair.near, 'of-another')}\n")
    words = ("--node", f"far={own_pair.far.url}", "--node-tokens", str(tokens))
    with OutliveServer(tmp_path / "third", args=words) as third, Client(third.state_dir) as client:
        wait_until(lambda: "token" in str(node_state(third)["reason"]))
        with pytest.raises(BackendUnavailable) as caught:
            client.start("true", backend=FAR)
        assert "token" in caught.value.message.lower()
        assert output_of(client.start("echo here"))[0] == b"here\n"


def test_two_servers_on_one_node_do_not_see_each_other(own_pair: Pair, tmp_path: Path) -> None:
    """Their tokens are two principals."""
    tokens = tmp_path / "other"
    tokens.touch(mode=0o600)
    tokens.write_text(f"far {a_token(own_pair.far, 'other')}\n")
    words = ("--node", f"far={own_pair.far.url}", "--node-tokens", str(tokens))
    with OutliveServer(tmp_path / "other-near", args=words) as other, Client(other.state_dir) as client:
        wait_until(lambda: node_state(other)["state"] == "connected")
        with own_pair.client() as first:
            mine = first.start("read x", backend=FAR, stdin="pipe")
            his = client.start("read x", backend=FAR, stdin="pipe")
            assert [one.process_id for one in first.list()] == [mine.process_id]
            assert [one.process_id for one in client.list()] == [his.process_id]
            with Client(url=own_pair.far.url, token=own_pair.token) as far:
                assert [one.process_id for one in far.list()] == [mine.process_id]
            mine.cancel(0)
            his.cancel(0)
            mine.wait(PATIENCE_S)
            his.wait(PATIENCE_S)


def test_a_node_that_never_was_there_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The server is ready as ever, and a command for the node is refused at once."""
    words = ("--node", f"far=http://127.0.0.1:{free_port()}")
    with OutliveServer(tmp_path / "alone", args=words) as alone, Client(alone.state_dir) as client:
        with pytest.raises(BackendUnavailable) as caught:
            client.start("true", backend=FAR)
        assert caught.value.code == "node_unavailable"
        assert is_alive(alone.pid)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"\0\xff" * 50, b""])
def test_what_is_no_outlive_server_is_said_and_harms_nobody(tmp_path: Path, answer: bytes) -> None:
    """The node is away, with a reason; the server goes on."""
    listener = socket.create_server(("127.0.0.1", free_port()))
    port = listener.getsockname()[1]

    def serve() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(4096)
                peer.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    words = ("--node", f"far=ws://127.0.0.1:{port}")
    with OutliveServer(tmp_path / "near", args=words) as near, Client(near.state_dir) as client:
        wait_until(lambda: "connected to" not in str(node_state(near)["reason"]))
        assert node_state(near)["state"] == "away"
        with pytest.raises(BackendUnavailable):
            client.start("true", backend=FAR)
        assert output_of(client.start("echo here"))[0] == b"here\n"
    listener.close()
