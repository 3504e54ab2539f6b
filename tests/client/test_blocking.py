"""The blocking twin does what the asyncio one does: each of its operations once."""

import hashlib
import signal
import subprocess

import pytest

from outlive.client import BEGINNING, Client, Cursor, InvalidState, Output, Process
from tests.support.processes import Gate, is_alive, is_stopped
from tests.support.server import OutliveServer


def _output(process: Process) -> bytes:
    with process.follow() as follow:
        return b"".join(item.data for item in follow if isinstance(item, Output))


def test_a_command_is_started_followed_and_found_again(blocking: Client, gate: Gate) -> None:
    process = blocking.start(f"echo one; {gate.wait}; echo two; exit 3", tags={"twin": "blocking"})
    follow = process.follow()
    assert (follow.process_id, follow.cursor, follow.completion) == (process.process_id, BEGINNING, None)
    first = next(follow)
    assert isinstance(first, Output)
    assert (first.data, follow.cursor) == (b"one\n", Cursor(4, 0))
    info = process.wait(0.01)
    assert (info.is_complete, info.state, info.pid) == (False, "running", process.pid)
    gate.open()
    assert [item.data for item in follow if isinstance(item, Output)] == [b"two\n"]
    assert follow.completion is not None
    assert follow.completion.returncode == 3
    assert list(follow) == []
    again = blocking.get(process.process_id)
    assert again.info() == process.wait()
    assert [i.data for i in blocking.attach(process.process_id, "4.0") if isinstance(i, Output)] == [b"two\n"]
    assert process.process_id in [info.process_id for info in blocking.list(tags={"twin": "blocking"})]
    assert [i.data for i in process.read("4.0").items if isinstance(i, Output)] == [b"two\n"]
    assert [i.data for i in process.tail(2).items if isinstance(i, Output)] == [b"o\n"]


def test_input_signals_and_control(blocking: Client) -> None:
    summing = blocking.start(["sha256sum"], stdin="pipe")
    data = bytes(range(256)) * 4000
    summing.write(data)
    summing.close_stdin()
    assert _output(summing).split()[0].decode() == hashlib.sha256(data).hexdigest()
    process = blocking.start(
        "trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.05; done", pty=True
    )
    follow = process.follow()
    next(follow)
    process.pause()
    assert process.pid is not None
    assert is_stopped(process.pid)
    process.resume()
    process.resize(33, 77)
    assert b"".join(item.data for item in follow if isinstance(item, Output)) == b"33 77\r\n"
    assert process.wait().exit_code == 7
    sleeping = blocking.start("sleep 1000")
    sleeping.signal(signal.SIGINT)
    assert sleeping.wait().returncode == -signal.SIGINT
    with pytest.raises(InvalidState):
        sleeping.cancel(1)


def test_leaving_an_iteration_leaves_the_process_alone(server: OutliveServer) -> None:
    with Client(server.state_dir, start_server=False) as client:
        process = client.start("while :; do echo x; sleep 0.01; done")
        for _ in process.follow():
            break
    assert process.pid is not None
    assert is_alive(process.pid)
    with Client(server.state_dir, start_server=False) as client:
        found = client.get(process.process_id)
        assert found.info().state == "running"
        found.cancel()
        assert found.wait().exit_signal == signal.SIGTERM
        found.close()


def test_a_private_process_is_given_up_by_name(server: OutliveServer) -> None:
    with Client(server.state_dir, start_server=False) as client:
        process = client.start("echo mine", detach=False)
        assert _output(process) == b"mine\n"
        assert _output(process) == b"mine\n"
        process.close()
        assert client.list(active=True, tags={"none": "such"}) == []


def test_a_command_is_run_to_its_end_as_subprocess_does(blocking: Client) -> None:
    """Issue 38, 4."""
    assert blocking.run("echo one; echo two >&2", check=True).text == "one\n"
    ended = blocking.run("echo two >&2; exit 3")
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, b"", b"two\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        blocking.run(["sh", "-c", "echo one; exit 4"], check=True)
    assert (failed.value.returncode, failed.value.output) == (4, b"one\n")


def test_a_process_is_printed_by_the_name_that_finds_it(blocking: Client) -> None:
    process = blocking.start("true")
    assert repr(process) == f"Process({process.process_id!r}, pid={process.pid})"


def test_a_text_is_refused_as_input_with_what_to_write(blocking: Client, gate: Gate) -> None:
    process = blocking.start(f"{gate.wait}; true", stdin="pipe")
    with pytest.raises(TypeError, match="takes bytes, not str"):
        process.write("text")  # type: ignore[arg-type] # the mistake
    gate.open()
