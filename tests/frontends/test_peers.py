"""Who is at the other end of connections that come together: real processes, and the kernel's word."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.kernel.callers import PeerProcess
from outlive.server.access.peers import Peer, PeerCredentials, PeerPlace, Peers

_CLIENT = """
import socket, sys
ours = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
sys.stdin.read()
"""


@contextlib.contextmanager
def _connected(count: int, environment: dict[str, str]) -> Iterator[list[Peer]]:
    """Yield the peers of so many connections of one process."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        words = [sys.executable, "-c", _CLIENT, str(listener.getsockname()[1]), str(count)]
        client = stack.enter_context(
            subprocess.Popen(
                words, stdin=subprocess.PIPE, env={**os.environ, **environment}, start_new_session=True
            )
        )
        stack.callback(client.kill)
        accepted = [stack.enter_context(listener.accept()[0]) for _ in range(count)]
        yield [Peer(local=one.getsockname()[:2], remote=one.getpeername()[:2]) for one in accepted]


@pytest.mark.parametrize("count", [1, 2, 20])
async def test_only_its_environment_tells_a_process_and_all_its_connections_are_judged_by_it(
    tmp_path: Path, count: int
) -> None:
    """Its shim was killed, its session is its own: no connection passes while the first one is still looked
    at.
    """
    peers = Peers(Layout(str(tmp_path)), own_uid=os.getuid(), living=lambda: [(None, "p1")])
    marks = {"OUTLIVE_STATE_DIR": str(tmp_path), "OUTLIVE_PROCESS_ID": "p1"}
    with _connected(count, marks) as came:
        async with asyncio.timeout(20):
            found = await asyncio.gather(*map(peers.standing, came))
        assert {(one.place, one.inside) for one in found} == {(PeerPlace.INSIDE, "p1")}


_PARENT = """
import os, socket, subprocess, sys
child = "import socket, sys; one = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); sys.stdin.read()"
held = subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], stdin=subprocess.PIPE, env={})
sys.stdin.readline()
own = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""  # noqa: E501 -- lines of a table, or of another language


@contextlib.contextmanager
def _parent_and_child(environment: dict[str, str]) -> Iterator[Callable[[], Peer]]:
    """Yield what returns the peer of a child without environment first, then that of its parent."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        words = [sys.executable, "-c", _PARENT, str(listener.getsockname()[1])]
        parent = stack.enter_context(
            subprocess.Popen(
                words, stdin=subprocess.PIPE, env={**os.environ, **environment}, start_new_session=True
            )
        )
        stack.callback(parent.kill)

        def next_peer() -> Peer:
            one = stack.enter_context(listener.accept()[0])
            assert parent.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                parent.stdin.write(b"\n")
                parent.stdin.flush()
            return Peer(local=one.getsockname()[:2], remote=one.getpeername()[:2])

        yield next_peer


async def test_a_child_that_passes_is_no_word_for_its_parent(tmp_path: Path) -> None:
    """Only its environment tells the parent, whose shim was killed, and it gives its child none."""
    peers = Peers(Layout(str(tmp_path)), own_uid=os.getuid(), living=lambda: [(None, "p1")])
    marks = {"OUTLIVE_STATE_DIR": str(tmp_path), "OUTLIVE_PROCESS_ID": "p1"}
    places = []
    with _parent_and_child(marks) as next_peer:
        for _ in range(2):
            peer = await asyncio.to_thread(next_peer)
            places.append((await peers.standing(peer)).place)
    assert places == [PeerPlace.OUTSIDE, PeerPlace.INSIDE]


@pytest.mark.promise("A.inside")
@pytest.mark.parametrize("state_dir", ["/elsewhere", ""])
async def test_a_process_of_another_server_is_inside_whichever_folder_its_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_dir: str
) -> None:
    """No process of ours lives; the server itself may be in that process, and then nothing follows."""
    found = []
    marks = {"OUTLIVE_STATE_DIR": state_dir, "OUTLIVE_PROCESS_ID": "01m8j4hd1jdk19ph92pdv2fzez"}
    for own in (None, marks["OUTLIVE_PROCESS_ID"]):
        if own is not None:
            monkeypatch.setenv("OUTLIVE_PROCESS_ID", own)
        peers = Peers(Layout(str(tmp_path)), own_uid=os.getuid(), living=lambda: ())
        with _connected(1, marks) as (one,):
            standing = await peers.standing(one)
        found.append((standing.place, standing.inside))
    assert found == [(PeerPlace.INSIDE, "v2fzez"), (PeerPlace.OUTSIDE, None)]


async def test_who_has_nothing_to_do_with_us_is_outside_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = Peers(Layout(str(tmp_path)), own_uid=os.getuid(), living=lambda: [(None, "p1")])
    reads = 0
    carried = Peers._carried

    async def counted(self: Peers, pid: int) -> str | None:
        nonlocal reads
        reads += 1
        return await carried(self, pid)

    monkeypatch.setattr(Peers, "_carried", counted)
    with _connected(20, {}) as came:
        async with asyncio.timeout(20):
            found = await asyncio.gather(*map(peers.standing, came))
        assert {one.place for one in found} == {PeerPlace.OUTSIDE}
    assert reads == 1


@pytest.mark.promise("A.inside")
async def test_a_caller_that_ends_while_it_is_judged_counts_as_gone(tmp_path: Path) -> None:
    """Its pid may be another process's by then, which is outside."""
    sleep = partial(subprocess.Popen, ["sleep", "60"], start_new_session=True)
    with sleep() as caller, sleep() as other:

        def living() -> list[tuple[int | None, str]]:
            caller.kill()
            caller.wait()
            return []

        peers = Peers(Layout(str(tmp_path)), own_uid=os.getuid(), living=living)
        reused = PeerProcess(other.pid, os.getuid(), pidfd=os.pidfd_open(caller.pid))
        found = await peers.standing(Peer(caller=reused, is_unix=True))
        other.kill()
    assert caller.returncode is not None
    assert found == PeerCredentials(uid=os.getuid())
