"""How a supervisor proves that its lock is its own: on connections of its own, once, for a moment."""

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.keeper.supervisor.lock_challenge import LockChallenge
from outlive.keeper.supervisor.loop import Loop
from outlive.kernel import sockets
from outlive.kernel.locks import take_lock

_AT = 1 << 41
_FLOCK = struct.Struct("hhqqi")


class _Meeting:
    """A supervisor's challenge, and a peer that it has connected to."""

    def __init__(self, folder: Path, *, answers: bool = True, is_ours: bool = False) -> None:
        lock = take_lock(str(folder / "lock"))
        assert lock is not None
        self.lock = lock
        self.reader = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
        self.log: list[str] = []
        self.heard: list[tuple[bytes, list[int], int]] = []
        self.loop = Loop(self.log.append)
        listener = sockets.listen_unix(str(folder / "sock"))
        self.link = sockets.connect_unix(str(folder / "sock"), names_senders=True)
        self.judged: list[int] = []

        def judge(pid: int) -> bool:
            self.judged.append(pid)
            return is_ours

        challenge = LockChallenge(self.loop, lock, is_ours=judge, log=self.log.append)
        challenge.meet(self.link, lambda *what: self.heard.append(what), answers=answers)
        accepted = sockets.accept(listener)
        assert accepted is not None
        self.peer = accepted
        listener.close()

    def say(self, words: bytes) -> None:
        sockets.send(self.peer, words)
        self.loop.turn()

    def is_locked(self, at: int = _AT, *, size: int = 1) -> bool:
        asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, at, size, 0)
        return bool(_FLOCK.unpack(fcntl.fcntl(self.reader, fcntl.F_OFD_GETLK, asked))[0] == fcntl.F_WRLCK)

    def answer(self) -> bytes | None:
        packet = sockets.receive(self.peer)
        return None if packet is None else packet[0]

    def close(self) -> None:
        for one in (self.peer, self.link):
            one.close()
        os.close(self.lock)
        os.close(self.reader)


@contextmanager
def _meeting(folder: Path, *, answers: bool = True, is_ours: bool = False) -> Iterator[_Meeting]:
    met = _Meeting(folder, answers=answers, is_ours=is_ours)
    try:
        yield met
    finally:
        met.close()


def test_the_byte_is_free_until_the_next_word(tmp_path: Path) -> None:
    with _meeting(tmp_path) as met:
        met.say(b"prove %d" % _AT)
        assert met.answer() == b"proved"
        assert met.judged == [os.getpid()], "the kernel says which process asks"
        assert not met.is_locked()
        assert met.is_locked(_AT - 1)
        assert met.is_locked(_AT + 1)
        assert met.heard == []
        met.say(b"hello 7")
        assert met.is_locked()
        assert met.heard == [(b"hello 7", [], os.getpid())]
        assert not met.loop.is_watched(met.link.fileno())


def test_the_byte_is_locked_again_when_the_peer_hangs_up(tmp_path: Path) -> None:
    with _meeting(tmp_path) as met:
        met.say(b"prove %d" % _AT)
        met.peer.shutdown(socket.SHUT_RDWR)
        met.loop.turn()
        assert met.is_locked()
        assert met.heard == [(b"", [], os.getpid())]


def test_the_byte_is_locked_again_when_the_peer_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.keeper.supervisor.lock_challenge._FREE_S", 0.01)
    with _meeting(tmp_path) as met:
        met.say(b"prove %d" % _AT)
        assert not met.is_locked()
        met.loop.turn()
        assert met.is_locked()
        assert met.heard == []


def test_a_byte_that_somebody_took_is_taken_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.keeper.supervisor.lock_challenge._RETRY_S", 0.01)
    with _meeting(tmp_path) as met:
        met.say(b"prove %d" % _AT)
        fcntl.fcntl(met.reader, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, _AT, 1, 0))
        met.say(b"hello 7")
        fcntl.fcntl(met.reader, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, _AT, 1, 0))
        assert not met.is_locked()
        met.loop.turn()
        assert met.is_locked()


@pytest.mark.parametrize(
    "question",
    [
        b"prove",
        b"prove x",
        b"prove -1",
        b"prove 0",
        b"prove 64",
        b"prove %d" % (1 << 62),
        b"prove 9" + b"9" * 30,
    ],
)
def test_a_question_that_no_runner_asks_is_the_end(tmp_path: Path, question: bytes) -> None:
    with _meeting(tmp_path) as met:
        met.say(question)
        assert met.answer() is None
        assert len(met.heard) == 1
        assert met.is_locked(0, size=0)
        assert met.heard[0][0] in {b"", b"prove"}


def test_only_one_question_is_answered(tmp_path: Path) -> None:
    with _meeting(tmp_path) as met:
        met.say(b"prove %d" % _AT)
        assert met.answer() == b"proved"
        met.say(b"prove %d" % (_AT + 8))
        assert met.answer() is None
        assert met.heard == [(b"", [], os.getpid())]
        assert met.is_locked()
        assert met.is_locked(_AT + 8)


def test_where_no_question_is_expected_none_is_answered(tmp_path: Path) -> None:
    with _meeting(tmp_path, answers=False) as met:
        met.say(b"prove %d" % _AT)
        assert met.answer() is None
        assert met.is_locked()
        assert met.heard == [(b"", [], os.getpid())]


def test_a_process_of_our_own_trees_is_not_answered(tmp_path: Path) -> None:
    with _meeting(tmp_path, is_ours=True) as met:
        met.say(b"prove %d" % _AT)
        assert met.answer() is None
        assert met.is_locked()
        assert met.heard == [(b"", [], os.getpid())]
        assert len(met.log) == 1
