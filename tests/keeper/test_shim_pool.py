"""The pool of idle shims: what the keeper says of itself while shims are on their way."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.keeper.supervisor.home import Home
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.starts.shim_pool import GuardianLink, ShimPool
from outlive.kernel import sockets
from outlive.kernel.locks import take_lock


class _Guardian:
    """The other end of guardian.sock, which does each step when the test says so; its shims are sockets."""

    def __init__(self, state_dir: Path) -> None:
        self.loop = Loop(print)
        layout = Layout(str(state_dir))
        listener = sockets.listen_unix(layout.guardian_socket)
        lock = take_lock(layout.supervisor_lock)
        assert lock is not None
        self._home = Home(layout, lock, pid_lock=os.dup(lock), program=-1)
        self.link = GuardianLink(self.loop, layout, log=print, connected=self._connected, home=self._home)
        self.pool = ShimPool(self.loop, self.link, available=lambda: None)
        self.link.begin()
        accepted = sockets.accept(listener)
        listener.close()
        assert accepted is not None
        self.connection = accepted
        self.trouble: list[str] = []
        self.say(b"hello 1")
        packet = sockets.receive(self.connection)
        assert packet is not None
        assert packet[0] == b"spawn"
        self.shims = [socket.socket(fileno=fd) for fd in packet[1]]

    def _connected(self) -> None:
        if self.link.trouble:
            self.trouble.append(self.link.trouble)
        else:
            self.pool.fill()

    def say(self, words: bytes) -> None:
        assert sockets.send(self.connection, words)
        self.turn()

    def greet_as_shims(self, begin: int = 0) -> None:
        for shim in self.shims[begin:]:
            assert sockets.send(shim, b"hello %d" % os.getpid())
        self.turn()

    def turn(self) -> None:
        self.loop.later(0.0, lambda: None)
        self.loop.turn()

    def die(self) -> None:
        self.link.is_leaving = True  # or it would start a guardian
        self.connection.close()
        self.turn()

    def close(self) -> None:
        self.die()
        for shim in self.shims:
            shim.close()
        self.turn()
        self._home.leave()


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[_Guardian]:
    found = _Guardian(tmp_path)
    yield found
    found.close()


def test_the_pool_is_filling_while_the_guardian_still_has_the_links(guardian: _Guardian) -> None:
    """A shim that dies then does not close its link: the keeper must not call itself redundant."""
    guardian.greet_as_shims()
    assert len(guardian.pool) == len(guardian.shims)
    assert guardian.pool.is_filling
    guardian.say(b"spawned")
    assert not guardian.pool.is_filling


def test_the_pool_is_filling_until_all_shims_said_hello(guardian: _Guardian) -> None:
    guardian.say(b"spawned")
    assert guardian.pool.is_filling
    guardian.greet_as_shims()
    assert not guardian.pool.is_filling


def test_links_of_a_guardian_that_died_are_closed(guardian: _Guardian) -> None:
    guardian.greet_as_shims()
    guardian.die()
    assert not guardian.pool.is_filling


def test_why_no_shims_come_is_known_until_others_are_asked_for(guardian: _Guardian) -> None:
    guardian.say(b"useless it cannot be executed: No such file or directory")
    assert guardian.trouble == ["it cannot be executed: No such file or directory"]
    guardian.greet_as_shims()
    for _ in guardian.shims:
        assert guardian.pool.take() is not None
    assert guardian.link.trouble == ""


def test_who_served_among_a_crowd_is_released_with_patience(guardian: _Guardian) -> None:
    """Four others were started while its command ran.

    One whose command was alone is not to wait for anybody.
    """
    guardian.greet_as_shims()
    for each in guardian.shims:
        each.settimeout(0.0)
    for others, words in ((0, b"release"), (3, b"release"), (4, b"release patient"), (0, b"release")):
        taken = [guardian.pool.take() for _ in range(1 + others)]
        for shim in taken:
            assert shim is not None
            guardian.pool.release(shim)
        said = sorted(packet[0] for each in guardian.shims if (packet := sockets.receive(each)) is not None)
        assert said == sorted([words, *[b"release"] * others])
