"""What ends `outlive run` ends all that it has started, as in a shell without job control.

What is left is seen.
"""

import asyncio
import json
import os
import pty
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.client import Client
from tests.cli.comparing import run_words
from tests.cli.terminals import Screen
from tests.support.processes import Marker, end, poll_until
from tests.support.server import OutliveServer, outlive_command

_PATIENCE_S = 60.0


@contextmanager
def _started(
    served: OutliveServer,
    marker: Marker,
    line: str,
    *,
    count: int,
    before: tuple[str, ...] = (),
    is_bare: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a line as a host does, in a process group of its own; `count` processes with the mark run then."""
    words = ["bash", "-c", line] if is_bare else [*run_words(served)[:-1], "-c", line]
    process = subprocess.Popen(
        [*before, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            _await(lambda: len(marker.pids()) == count)
            yield process
        finally:
            for pid in marker.pids():
                os.kill(pid, signal.SIGKILL)
            process.kill()


@pytest.mark.promise("C.run.signals")
@pytest.mark.parametrize(("to_group", "is_bare"), [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGTERM, "{0} & {0}; true"),
        (signal.SIGHUP, "{0} & {0}; true"),
        (signal.SIGTERM, "{0} & {0} & wait"),
        (
            signal.SIGINT,
            "{0} | {0}; true",
        ),  # a background job ignores INT and QUIT without job control (POSIX, 2.11)
        (signal.SIGQUIT, "{0} | {0}; true"),
    ],
)
def test_a_signal_that_ends_reaches_the_whole_tree(
    served: OutliveServer, marker: Marker, number: signal.Signals, line: str, to_group: bool, is_bare: bool
) -> None:
    """`kill -TERM -- -PGID`, as hosts do at a timeout; bare bash beside it, which has the same group."""
    with _started(served, marker, line.format(marker.sleep), count=2, is_bare=is_bare) as process:
        (os.killpg if to_group else os.kill)(process.pid, number)
        _await(lambda: marker.pids() == [])
        code = process.wait(_PATIENCE_S)
        assert number == signal.SIGQUIT or code in {-number, 128 + number}  # which bash ignores for itself


@pytest.mark.promise("C.run.signals")
def test_under_nohup_a_hang_up_is_for_nobody(served: OutliveServer, marker: Marker) -> None:
    with _started(served, marker, f"{marker.sleep} & {marker.sleep}", count=2, before=("nohup",)) as process:
        os.killpg(process.pid, signal.SIGHUP)
        with Client(
            served.state_dir, start_server=False
        ) as client:  # the signal has had its time: a whole exchange
            assert any(info.state == "running" for info in client.list(active=True))
        assert len(marker.pids()) == 2
        os.killpg(process.pid, signal.SIGTERM)
        _await(lambda: marker.pids() == [])


@contextmanager
def _host(line: str, *words: str) -> Iterator[Screen]:
    """A shell on a terminal that runs a line, which finds `words` as its arguments, says "left", and
    stays.
    """
    master, slave = pty.openpty()
    shell = ["setsid", "-c", "sh", "-c", f"{line}; echo left; read word", "sh", *words]
    process = subprocess.Popen(shell, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    with process:
        try:
            yield Screen(process, master)
        finally:
            process.kill()
            os.close(master)


@pytest.mark.promise("C.run.signals")
@pytest.mark.parametrize("way", ["--detach", "keys"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP])
def test_what_was_detached_is_ended_by_no_signal_to_the_group_that_began_it(
    served: OutliveServer, marker: Marker, way: str, number: signal.Signals
) -> None:
    """A host ends its group, or a terminal closes: what a person has let go of is not meant."""
    words = run_words(served, *(["--detach"] if way == "--detach" else []))[:-1]
    try:
        with _host('"$@"', *words, "-c", f"{marker.sleep} & echo begun; {marker.sleep}") as screen:
            if way == "keys":
                screen.until("begun")
                screen.type("\x10\x11")
                screen.until("goes on")
            screen.until("left")
            _await(lambda: len(marker.pids()) == 2)
            os.killpg(screen.process.pid, number)
            with Client(served.state_dir, start_server=False) as client:  # the signal has had its time
                (info,) = [one for one in client.list(active=True) if marker.seconds in one.command]
                assert info.state == "running"
                assert len(marker.pids()) == 2
                client.get(info.process_id).cancel(grace_s=0)
        _await(lambda: marker.pids() == [])
    finally:
        for pid in marker.pids():
            end(pid)


@pytest.mark.promise("C.run.signals")
def test_what_a_finished_run_left_running_ends_with_its_group(served: OutliveServer, marker: Marker) -> None:
    """The command has ended, its background job holds the pipe: a host ends the group all the same."""
    with _started(served, marker, f"{marker.sleep} & echo out", count=1) as process:
        assert process.wait(_PATIENCE_S) == 0
        _await(lambda: _members(process.pid) != [])  # who carries late output on
        os.killpg(process.pid, signal.SIGTERM)
        _await(lambda: marker.pids() == [])


def _await(is_so: Callable[[], bool]) -> None:
    asyncio.run(poll_until(is_so))


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


@pytest.mark.promise("C.run.left")
def test_a_killed_client_leaves_the_command_running_and_lists_show_it(
    served: OutliveServer, marker: Marker
) -> None:
    with _started(served, marker, f"{marker.sleep} & {marker.sleep}; true", count=2) as process:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_PATIENCE_S)
        assert len(marker.pids()) == 2
        assert marker.seconds in _ps(served)


@pytest.mark.promise("C.run.left")
def test_what_is_left_of_a_command_is_seen_in_every_list(served: OutliveServer, marker: Marker) -> None:
    line = f"{marker.sleep} >/dev/null 2>&1 & {marker.sleep} >/dev/null 2>&1 & true"
    done = subprocess.run(
        [*run_words(served)[:-1], "-c", line], check=True, timeout=_PATIENCE_S, capture_output=True
    )
    assert done.stdout == b""
    try:
        shown = _ps(served)
        assert "finished, left 2" in shown
        assert "outlive stop" in shown
        with Client(served.state_dir, start_server=False) as client:
            (info,) = [info for info in client.list(active=True) if marker.seconds in info.command]
            assert info.descendants == 2
            assert all(
                one.descendants == 0 for one in client.list(active=False) if one.process_id != info.process_id
            )
        url = f"{served.rest_url}/v1/processes?state=active"
        with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:  # noqa: S310 -- our own server's
            processes = json.loads(answer.read())["processes"]
        assert [one["descendants"] for one in processes if one["process_id"] == info.process_id] == [2]
        stopped = subprocess.run(
            [*outlive_command(), "stop", "--state-dir", str(served.state_dir), info.process_id[-6:]],
            check=True,
            timeout=_PATIENCE_S,
        )
        assert stopped.returncode == 0
        _await(lambda: marker.pids() == [])
        _await(lambda: marker.seconds not in _ps(served))
    finally:
        for pid in marker.pids():
            os.kill(pid, signal.SIGKILL)


def _ps(served: OutliveServer) -> str:
    done = subprocess.run(
        [*outlive_command(), "ps", "--state-dir", str(served.state_dir)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=True,
    )
    return done.stdout + done.stderr
