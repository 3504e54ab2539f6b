"""A node that says nothing any more: soon told, nobody waits for it, and what it was asked to start runs
once.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from outlive.client import BackendUnavailable, Client, InvalidState, ProcessEvent
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.extensions.fleet.link import Pauses
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, node_state, output_of, wait_until
from tests.support.server import run_outlive

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("stays_stopped")]

_REPORTED_S = 5.0


@contextmanager
def _heard(pair: Pair) -> Iterator[list[ProcessEvent]]:
    """Hear of nodes on a thread of its own."""
    told: list[ProcessEvent] = []
    with (
        Client(pair.near.state_dir, start_server=False) as client,
        client.events(events=["node_away", "node_connected"]) as events,
    ):

        def listen() -> None:
            for event in events:
                told.append(event)
                if len(told) == 2:
                    return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield told
        thread.join(PATIENCE_S)


def test_the_two_times_are_less_than_what_is_promised() -> None:
    """No clock is held against a busy machine: the sum of what is waited for is."""
    pauses = Pauses()
    assert pauses.beat_s + pauses.answer_s < _REPORTED_S


@pytest.mark.promise("S4.12.nodes.silent")
def test_a_node_whose_server_stands_still_is_told(own_pair: Pair) -> None:
    """By an event, in every list, and to who asks; all is true again when it goes on."""
    with own_pair.client() as client, _heard(own_pair) as told:
        process = client.start("read x; exit 4", backend="far", stdin="pipe")
        os.kill(own_pair.far.pid, signal.SIGSTOP)
        try:
            with pytest.raises(BackendUnavailable) as caught:
                process.write(b"\n")
            assert (caught.value.code, "not known" in caught.value.message) == ("server_lost", True)
            wait_until(lambda: told)
            assert (told[0].event, told[0].node, told[0].process_id) == ("node_away", "far", None)
            assert node_state(own_pair.near)["state"] == "away"
            wait_until(lambda: process.info().is_unknown)
            shown = run_outlive("ps", state_dir=own_pair.near.state_dir).stdout
            assert "running, unreachable" in shown
            with pytest.raises(BackendUnavailable) as caught:
                client.start("true", backend="far")
            assert caught.value.code == "node_unavailable"  # known to be away: nothing was asked
            assert output_of(client.start("echo here"))[0] == b"here\n"
        finally:
            os.kill(own_pair.far.pid, signal.SIGCONT)
        wait_until(lambda: len(told) == 2)
        assert (told[1].event, told[1].node) == ("node_connected", "far")
        wait_until(lambda: not process.info().is_unknown)
        assert process.wait(PATIENCE_S).exit_code == 4  # what was written had arrived


@pytest.mark.promise("S4.12.nodes.silent", "S4.12.nodes.once")
def test_a_start_whose_answer_is_lost_is_said_to_be_open_and_runs_once(
    own_pair: Pair, tmp_path: Path
) -> None:
    """The request arrives, the answer does not: the error names the id, the list has it, and one process
    runs.
    """
    mark = tmp_path / "mark"
    with own_pair.client() as client:
        client.start("true", backend="far").wait(PATIENCE_S)  # the connection for requests is open
        own_pair.proxy.mute()
        with pytest.raises(BackendUnavailable) as caught:
            client.start(f"echo x >> {mark}; read x; exit 6", backend="far", stdin="pipe")
        error = caught.value
        assert error.code == "start_unanswered"
        assert "try again" not in f"{error.message} {error.hint}".lower()
        process_id = str(error.details["process_id"])
        assert process_id in error.message
        wait_until(mark.exists)  # it does run
        (listed,) = client.list(active=True)
        assert (str(listed.process_id), listed.is_unknown) == (process_id, True)
        own_pair.proxy.cut()
        own_pair.proxy.heal()
        process = client.get(process_id)
        wait_until(lambda: process.info().state == "running" and not process.info().is_unknown)
        process.write(b"\n")
        assert process.wait(PATIENCE_S).exit_code == 6
        with own_pair.far_client() as far:
            assert [str(one.process_id) for one in far.list()].count(process_id) == 1
        assert len(client.list()) == 2
    assert mark.read_text() == "x\n"


@pytest.mark.promise("S4.12.nodes.once")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_start_whose_answer_is_lost_runs_once_also_where_the_node_has_removed_it(
    own_pair: Pair, tmp_path: Path, *, is_killed: bool
) -> None:
    """It has ended and was removed while the link was cut: whether it ran is not known, and it is not started
    again.
    """
    mark = tmp_path / "mark"
    with own_pair.client() as client, own_pair.far_client() as far:
        client.start("true", backend="far").wait(PATIENCE_S)  # the connection for requests is open
        own_pair.proxy.mute()
        with pytest.raises(BackendUnavailable) as caught:
            client.start(f"echo x >> {mark}", backend="far")
        process_id = str(caught.value.details["process_id"])
        own_pair.proxy.cut()
        far.get(process_id).wait(PATIENCE_S, until="closed")
        far.remove(process_id)
    own_pair.far.restart()
    if is_killed:
        own_pair.near.restart()
    own_pair.proxy.heal()
    with own_pair.client() as client:
        info = client.get(process_id).wait(PATIENCE_S)
        assert (info.state, info.exit_code) == ("lost", None)
    assert mark.read_text() == "x\n"


@pytest.mark.promise("S4.12.nodes.silent", "S4.12.nodes.once")
def test_a_cancel_and_a_repeated_start_meanwhile_are_not_told_to_try_again(
    own_pair: Pair, tmp_path: Path
) -> None:
    """The node is silent: what is asked about a start that may run says so, with its name, until it is known
    to run.
    """
    mark = tmp_path / "mark"
    process_id = new_process_id(1_700_000_000_000_000_000, os.urandom(RANDOM_BYTES))
    with own_pair.client() as client:
        client.start("true", backend="far").wait(PATIENCE_S)  # the connection for requests is open

        def start() -> str:
            with own_pair.client() as other:
                return _refusal(
                    lambda: other.start(
                        f"echo x >> {mark}; exec sleep 1000", backend="far", process_id=process_id
                    )
                )

        own_pair.proxy.mute()
        with ThreadPoolExecutor(2) as callers:
            first = callers.submit(start)
            wait_until(mark.exists)
            again = callers.submit(start)
            cancelled = _refusal(client.get(process_id).cancel)
            assert cancelled.startswith(("server_lost", "node_unavailable"))
            assert first.result().startswith("start_unanswered")
            assert process_id in first.result()
            assert again.result().startswith("start_unanswered")
            assert process_id in again.result()
        assert "try again" not in f"{cancelled} {first.result()} {again.result()}".lower()
        own_pair.proxy.cut()
        own_pair.proxy.heal()
        process = client.get(process_id)
        wait_until(lambda: process.info().is_reachable)
        with suppress(InvalidState):  # the first cancel may have arrived, as it was told
            process.cancel(0)
        assert process.wait(PATIENCE_S).cause == "cancel"
    assert mark.read_text() == "x\n"


def _refusal(call: Callable[[], object]) -> str:
    with pytest.raises(BackendUnavailable) as caught:
        call()
    return f"{caught.value.code}: {caught.value.message} {caught.value.hint}"


@pytest.mark.promise("S4.12.nodes.silent", "S4.12.nodes.once")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_stop_that_never_arrived_ends_nothing_and_is_no_reason(own_pair: Pair, *, is_killed: bool) -> None:
    """The node's server dies before it takes it: the command ends by itself later, and that is what its
    record says.
    """
    with own_pair.client() as client:
        process = client.start("read x; exit 4", backend="far", stdin="pipe")
        os.kill(own_pair.far.pid, signal.SIGSTOP)
        with pytest.raises(BackendUnavailable, match="not known"):
            process.cancel()
    own_pair.far.restart()
    if is_killed:
        own_pair.near.restart()
    own_pair.connected()
    with own_pair.client() as client:
        process = client.get(process.process_id)
        wait_until(lambda: process.info().is_reachable)
        process.write(b"\n")
        info = process.wait(PATIENCE_S)
        assert (info.state, info.exit_code, info.cause, info.error) == ("exited", 4, None, None)
        client.remove(process.process_id)


@pytest.mark.promise("S4.12.nodes.silent")
def test_a_start_that_never_arrived_runs_when_the_node_is_back(own_pair: Pair, tmp_path: Path) -> None:
    """The server stood still before it took the request: it takes it once."""
    mark = tmp_path / "mark"
    with own_pair.client() as client:
        os.kill(own_pair.far.pid, signal.SIGSTOP)
        try:
            with pytest.raises(BackendUnavailable) as caught:
                client.start(f"echo x >> {mark}", backend="far")
        finally:
            os.kill(own_pair.far.pid, signal.SIGCONT)
        assert caught.value.code == "start_unanswered"
        process = client.get(str(caught.value.details["process_id"]))
        assert process.wait(PATIENCE_S).exit_code == 0
        own_pair.connected()
    assert mark.read_text() == "x\n"
