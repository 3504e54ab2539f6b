"""The pool of idle shims: what the keeper says of itself while forks are on their way."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.keeper import sockets
from outlive.keeper.kept import ShimLink
from outlive.keeper.loop import Loop
from outlive.keeper.pool import GuardianLink, ShimPool


class _Guardian:
    """The other end of guardian.sock, which does each step when the test says so; its shims are sockets."""

    def __init__(self, state_dir: Path, greeting: bytes) -> None:
        self.loop = Loop(print)
        layout = Layout(str(state_dir))
        listener = sockets.listen_unix(layout.guardian_socket)
        self.link = GuardianLink(
            self.loop, layout, log=print, connected=self._connected, is_at_home=lambda: True
        )
        self.pool = ShimPool(self.loop, self.link, available=lambda: None, heard=_ignore)
        self.link.begin()
        accepted = sockets.accept(listener)
        listener.close()
        assert accepted is not None
        self.connection = accepted
        self.say(greeting)
        packet = sockets.receive(self.connection)
        assert packet is not None
        assert packet[0] == b"fork"
        self.shims = [socket.socket(fileno=fd) for fd in packet[1]]

    def _connected(self) -> None:
        self.pool.fill()

    def say(self, words: bytes) -> None:
        assert sockets.send(self.connection, words)
        self.turn()

    def greet_as_shims(self) -> None:
        for shim in self.shims:
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


def _ignore(_shim: ShimLink) -> None:
    pass


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[_Guardian]:
    found = _Guardian(tmp_path, b"hello 1 forked")
    yield found
    found.close()


def test_the_pool_is_filling_while_the_guardian_still_has_the_links(guardian: _Guardian) -> None:
    """A shim that dies then does not close its link: the keeper must not call itself redundant."""
    guardian.greet_as_shims()
    assert len(guardian.pool) == len(guardian.shims)
    assert guardian.pool.is_filling
    guardian.say(b"forked")
    assert not guardian.pool.is_filling


def test_the_pool_is_filling_until_all_shims_said_hello(guardian: _Guardian) -> None:
    guardian.say(b"forked")
    assert guardian.pool.is_filling
    guardian.greet_as_shims()
    assert not guardian.pool.is_filling


def test_links_of_a_guardian_that_died_are_closed(guardian: _Guardian) -> None:
    guardian.greet_as_shims()
    guardian.die()
    assert not guardian.pool.is_filling


def test_a_guardian_of_an_older_version_does_not_tell(tmp_path: Path) -> None:
    """The keeper's parts may be of two versions while it is upgraded."""
    guardian = _Guardian(tmp_path, b"hello 1")
    guardian.greet_as_shims()
    assert not guardian.pool.is_filling
    guardian.close()
