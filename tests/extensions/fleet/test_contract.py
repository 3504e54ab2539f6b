"""What two servers say of one process, and what is a node's alone.

What every place can do is in tests/contract.
"""

import os
from pathlib import Path

import pytest

from outlive.client import BackendUnavailable, Client, InvalidRequest
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, output_of

FAR = "far"


@pytest.mark.promise("S4.12.nodes")
def test_streams_and_exit_code_are_those_of_the_node(near: Client, far: Client) -> None:
    """Output byte by byte on both streams, the code, and where it ran."""
    process = near.start("printf 'a\\0b\\377'; printf err >&2; exit 7", backend=FAR)
    assert output_of(process) == (b"a\0b\xff", b"err")
    info = process.wait(PATIENCE_S, until="closed")
    assert (info.state, info.exit_code, info.location) == ("exited", 7, {"backend": FAR})
    there = far.get(process.process_id).info()
    assert (there.exit_code, there.pid, there.cursor) == (7, info.pid, info.cursor)


@pytest.mark.promise("S4.12.nodes")
def test_nothing_of_this_machine_goes_over(pair: Pair, near: Client) -> None:
    """Only what the caller gave: the state folder and the process id are the node's own, the variables are
    his.
    """
    process = near.start("env; pwd", backend=FAR, env={"MINE": "1"}, cwd="/usr")
    text = output_of(process)[0].decode()
    assert "MINE=1\n" in text
    assert text.endswith("/usr\n")
    assert f"OUTLIVE_STATE_DIR={pair.far.state_dir}" in text
    assert str(pair.near.state_dir) not in text


def test_an_unknown_backend_names_those_that_there_are(near: Client) -> None:
    """InvalidRequest with a hint."""
    with pytest.raises(InvalidRequest) as caught:
        near.start("true", backend="nowhere")
    assert "far" in caught.value.hint
    assert "local" in caught.value.hint


def test_secrets_go_over_and_are_hidden_on_both_sides(pair: Pair, near: Client) -> None:
    """The value reaches the command, and no file of either server holds it."""
    secret = "correct-horse-battery-" + os.urandom(8).hex()
    process = near.start('printf %s "$KEY" | wc -c; echo "$KEY"', backend=FAR, env_secrets={"KEY": secret})
    shown = output_of(process)[0]
    assert shown.startswith(b"%d\n" % len(secret))
    assert secret.encode() not in shown
    assert process.info().secret_names == ("KEY",)
    process.wait(PATIENCE_S, until="closed")
    spec = Path(pair.near.state_dir, "processes", process.process_id, "spec").read_bytes()
    assert secret.encode() not in spec


def test_a_start_repeated_under_its_name_runs_once(near: Client, far: Client, tmp_path: Path) -> None:
    """The same process_id on both sides."""
    marks = tmp_path / "marks"
    process = near.start(f"echo x >> {marks}", backend=FAR)
    process.wait(PATIENCE_S)
    again = near.start(f"echo x >> {marks}", backend=FAR, process_id=process.process_id)
    assert again.process_id == process.process_id
    assert marks.read_text() == "x\n"
    assert far.get(process.process_id).info().process_id == process.process_id


def test_a_process_that_was_removed_there_is_told_as_lost(near: Client, far: Client) -> None:
    """Nothing invents an exit code."""
    process = near.start("sleep 300", backend=FAR)
    far.remove(process.process_id, force=True)
    info = process.wait(PATIENCE_S)
    assert info.state in {"signaled", "lost"}
    assert info.exit_code is None


def test_only_a_node_that_is_there_is_asked(near: Client) -> None:
    """The state of the node is told."""
    assert [one["name"] for one in near.nodes()] == ["far"]
    with pytest.raises((BackendUnavailable, InvalidRequest)):
        near.start("true", backend="local2")


@pytest.mark.thorough
def test_what_is_heard_late_over_one_connection_tells_nothing_twice(own_pair: Pair) -> None:
    """Verbs are answered over one connection, events come over another: whichever is slow, each event is told
    once.
    """
    with own_pair.client() as client:
        client.start("true", backend=FAR).wait(PATIENCE_S)  # now both connections are there
        for slow in range(own_pair.proxy.taken):
            own_pair.proxy.lag_s = {slow: 0.3}
            seen = []
            with client.events() as events:
                process = client.start("read x", stdin="pipe", backend=FAR)
                process.pause()
                paused = process.info().state
                process.resume()
                resumed = process.info().state
                process.close_stdin()
                for event in events:
                    if event.process_id == process.process_id:
                        seen.append(event.event)
                    if seen[-1:] == ["closed"]:
                        break
            assert seen == ["started", "paused", "resumed", "ended", "closed"], slow
            assert (paused, resumed) == ("paused", "running"), slow
