"""Control of whole trees: cancel, grace, timeout, pause, signals, and what becomes of descendants."""

import signal

import pytest

from outlive.client import InvalidState, Output
from tests.contract.places import Asker
from tests.extensions.fleet.pairs import PATIENCE_S, output_of, wait_until
from tests.support.processes import Marker, is_stopped


def _marked(marker: Marker, count: int) -> None:
    wait_until(lambda: len(marker.pids()) == count)


def test_a_cancel_ends_the_whole_tree(asker: Asker, marker: Marker) -> None:
    """Children, those with a session of their own, and those whose parent has gone."""
    line = f"{marker.sleep} & setsid {marker.sleep} & (setsid {marker.sleep} &) ; wait"
    process = asker.start(line)
    _marked(marker, 3)
    process.cancel(0.5)
    info = process.wait(PATIENCE_S, until="closed")
    assert (info.state, info.cause) == ("signaled", "cancel")
    assert info.error
    wait_until(lambda: not marker.pids())


def test_a_grace_lets_everybody_finish(asker: Asker, marker: Marker) -> None:
    """TERM first: a trap has its say; the exit code is its own."""
    line = f"trap 'echo asked; exit 9' TERM; {marker.sleep} & echo ready; wait"
    process = asker.start(line)
    follow = process.follow()
    next(follow)
    _marked(marker, 1)
    process.cancel(10)
    rest = b"".join(item.data for item in follow if isinstance(item, Output))
    info = process.wait(PATIENCE_S, until="closed")
    assert (rest, info.exit_code, info.cause) == (b"asked\n", 9, "cancel")
    wait_until(lambda: not marker.pids())


def test_whoever_ignores_term_is_killed_when_the_grace_is_over(asker: Asker, marker: Marker) -> None:
    """KILL is what worked."""
    process = asker.start(f"trap '' TERM; {marker.sleep} & echo ready; while :; do sleep 1; done")
    next(process.follow())
    _marked(marker, 1)
    process.cancel(0.3)
    info = process.wait(PATIENCE_S, until="closed")
    assert (info.exit_signal, info.cause) == (signal.SIGKILL, "cancel")
    wait_until(lambda: not marker.pids())
    with pytest.raises(InvalidState):
        process.cancel(0)


def test_a_timeout_ends_the_whole_tree_and_keeps_the_output(asker: Asker, marker: Marker) -> None:
    """The reason is told in the same words."""
    process = asker.start(
        f"echo begun; setsid {marker.sleep} & {marker.sleep} & wait", timeout_s=0.4, grace_s=0.3
    )
    info = process.wait(PATIENCE_S, until="closed")
    assert (info.cause, info.error) == ("timeout", "Command timed out after 0.4 seconds")
    assert output_of(process)[0] == b"begun\n"
    wait_until(lambda: not marker.pids())


def test_a_pause_holds_the_whole_tree_and_a_resume_lets_it_go_on(asker: Asker, marker: Marker) -> None:
    """The kernel says so, too; output goes on afterwards where it stopped."""
    line = f"{marker.sleep} & setsid {marker.sleep} & i=0; while :; do i=$((i+1)); echo $i; sleep .01; done"
    process = asker.start(line)
    _marked(marker, 2)
    wait_until(lambda: process.info().cursor.stdout > 20)
    process.pause()
    process.pause()
    assert process.info().state == "paused"
    assert all(map(is_stopped, marker.pids()))
    at = process.info().cursor.stdout
    assert process.wait(0.3).cursor.stdout - at < 64  # at most what was on its way
    process.resume()
    assert process.info().state == "running"
    wait_until(lambda: not any(map(is_stopped, marker.pids())))
    wait_until(lambda: process.info().cursor.stdout > at + 100)
    process.pause()
    process.cancel(0.2)
    assert process.wait(PATIENCE_S, until="closed").cause == "cancel"
    wait_until(lambda: not marker.pids())
    words = output_of(process)[0].split()
    assert words == [b"%d" % i for i in range(1, len(words) + 1)]


def test_a_signal_goes_to_the_tree_or_to_the_group(asker: Asker, marker: Marker) -> None:
    """`whole_group` misses who has a session of its own, `whole_tree` nobody."""
    # Ignored signals stay so in what is executed (execve(2)); the shell itself counts what it is sent.
    process = asker.start(
        f"trap 'echo hup' HUP; {marker.sleep} & setsid {marker.sleep} & echo ready; wait; wait; wait"
    )
    follow = process.follow()
    assert next(follow).data == b"ready\n"  # type: ignore[union-attr] # nothing is missing at the beginning
    _marked(marker, 2)
    process.signal("HUP", whole_group=True)
    _marked(marker, 1)
    process.signal("KILL", whole_tree=True)
    assert process.wait(PATIENCE_S, until="closed").exit_signal == signal.SIGKILL
    wait_until(lambda: not marker.pids())


def test_descendants_are_kept(asker: Asker, marker: Marker) -> None:
    """`after_exit` "keep": they are counted, and a cancel ends them still."""
    process = asker.start(f"setsid {marker.sleep} </dev/null >/dev/null 2>&1 & exit 3", after_exit="keep")
    info = process.wait(PATIENCE_S)
    assert info.exit_code == 3
    _marked(marker, 1)
    wait_until(lambda: process.info().descendants == 1)
    process.cancel(0.2)
    wait_until(lambda: not marker.pids())
    wait_until(lambda: process.info().descendants == 0)


def test_descendants_are_ended(asker: Asker, marker: Marker) -> None:
    """`after_exit` "kill"."""
    line = f"setsid {marker.sleep} & {marker.sleep} & until [ -e go-kill ]; do sleep .02; done; exit 3"
    gate = asker.place.folder / "go-kill"
    gate.unlink(missing_ok=True)
    process = asker.start(line, after_exit="kill", grace_s=0.3)
    _marked(marker, 2)
    gate.touch()
    assert process.wait(PATIENCE_S, until="closed").exit_code == 3
    wait_until(lambda: not marker.pids())


def test_descendants_are_waited_for(asker: Asker) -> None:
    """`after_exit` "wait": complete when they are gone."""
    gate = asker.place.folder / "go-wait"
    gate.unlink(missing_ok=True)
    line = f"(until [ -e {gate} ]; do sleep .02; done) </dev/null >/dev/null 2>&1 & exit 3"
    process = asker.start(line, after_exit="wait")
    assert not process.wait(0.3).is_complete
    gate.touch()
    assert process.wait(PATIENCE_S).exit_code == 3
