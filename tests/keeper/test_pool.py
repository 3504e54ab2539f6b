"""The pool of idle shims: what the keeper says of itself while forks are on their way."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.keeper.common import sockets
from outlive.keeper.common.locks import take_lock
from outlive.keeper.supervisor.home import Home
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.starts.shim_pool import GuardianLink, ShimPool


class _Guardian:
    """The other end of guardian.sock, which does each step when the test says so; its shims are sockets."""

    def __init__(self, state_dir: Path, greeting: bytes) -> None:
        self.loop = Loop(print)
        layout = Layout(str(state_dir))
        listener = sockets.listen_unix(layout.guardian_socket)
        lock = take_lock(layout.supervisor_lock)
        assert lock is not None
        self._home = Home(layout, lock, pid_lock=os.dup(lock))
        self.link = GuardianLink(self.loop, layout, log=print, connected=self._connected, home=self._home)
        self.pool = ShimPool(self.loop, self.link, available=lambda: None)
        self.link.begin()
        accepted = sockets.accept(listener)
        listener.close()
        assert accepted is not None
        self.connection = accepted
        self.say(greeting)
        packet = sockets.receive(self.connection)
        assert packet is not None
        self.asked = packet[0]
        self.shims = [socket.socket(fileno=fd) for fd in packet[1]]

    def _connected(self) -> None:
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


def test_a_guardian_is_asked_for_what_it_has(tmp_path: Path) -> None:
    """Nobody is asked before it has said what that is: one of an older version forks, and says nothing."""
    for number, (greeting, verb) in enumerate(
        ((b"hello 1", b"fork"), (b"hello 1 forked", b"fork"), (b"hello 1 exec forked", b"exec"))
    ):
        (folder := tmp_path / str(number)).mkdir()
        guardian = _Guardian(folder, greeting)
        assert guardian.asked == verb
        guardian.close()


def test_forks_are_asked_for_when_a_command_needs_one(tmp_path: Path) -> None:
    guardian = _Guardian(tmp_path, b"hello 1 exec forked")
    guardian.greet_as_shims()
    assert guardian.pool.take(forked=True) is None
    packet = sockets.receive(guardian.connection)
    assert packet is not None
    assert packet[0] == b"fork"
    before = len(guardian.shims)
    guardian.shims += [socket.socket(fileno=fd) for fd in packet[1]]
    guardian.greet_as_shims(before)
    taken = guardian.pool.take(forked=True)
    assert taken is not None
    assert taken.is_forked
    plain = guardian.pool.take()
    assert plain is not None
    assert not plain.is_forked
    guardian.close()


def test_a_guardian_that_has_lost_its_program_is_asked_for_forks(tmp_path: Path) -> None:
    guardian = _Guardian(tmp_path, b"hello 1 exec forked")
    guardian.greet_as_shims()
    guardian.say(b"hello 1 forked")
    packet = sockets.receive(guardian.connection)
    assert packet is not None
    assert packet[0] == b"fork"
    guardian.shims += [socket.socket(fileno=fd) for fd in packet[1]]
    guardian.close()


def test_who_served_among_a_crowd_is_released_with_patience(guardian: _Guardian) -> None:
    """Four others were started while its command ran; one whose command was alone is not to wait for anybody."""
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
