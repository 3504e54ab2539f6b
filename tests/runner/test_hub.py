"""The hub (`outlive-runner hold`) and its frames, without Docker: what is said twice counts once, nonsense ends nothing."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.backends.docker.ferry import Frame, Frames, Type, Unpacker, encode
from outlive.keeper.common import sockets
from tests.keeper.client import until
from tests.runner.playing import exec_spec
from tests.support.processes import end

pytestmark = pytest.mark.thorough

_PART, _START, _INPUT, _INPUT_END, _ACK, _WORDS, _RELEASE = range(2, 9)
_STATE, _STARTED, _NOT_STARTED, _OUTPUT, _OUTPUT_END = range(20, 25)
_ENDED, _EMPTY = 27, 28

_bodies = st.binary(max_size=300)
_frames = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), _bodies), max_size=20)


@given(_frames, st.lists(st.integers(1, 400), min_size=1))
def test_frames_are_the_same_in_whatever_pieces_they_come(frames: list[Frame], sizes: list[int]) -> None:
    data, parser, at = b"".join(encode(*frame) for frame in frames), Frames(), 0
    found: list[Frame] = []
    while at < len(data):
        for size in sizes:
            found += parser.feed(data[at : at + size])
            at += size
    assert found == frames


@given(st.binary(max_size=2000))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    parser = Frames()
    try:
        for kind, channel, body in parser.feed(data):
            assert len(body) <= 32768 + 64
            assert min(kind, channel) >= 0
    except ValueError:
        return


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=200)), max_size=20), st.integers(1, 50))
def test_the_daemons_frames_are_taken_off(parts: list[tuple[int, bytes]], size: int) -> None:
    data = b"".join(bytes([kind, 0, 0, 0]) + len(body).to_bytes(4, "big") + body for kind, body in parts)
    unpacker = Unpacker()
    found = b"".join(unpacker.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert found == b"".join(body for kind, body in parts if kind == 1)


class Hub:
    """A hub beside the test, and the ferry's part."""

    def __init__(self, binary: Path, folder: Path) -> None:
        """Start it."""
        self._path = folder / "hub.sock"
        self.process = subprocess.Popen(
            [binary, "hold", "--any-peer", "hub.sock"], cwd=folder, stdin=subprocess.DEVNULL
        )
        self._link: socket.socket | None = None
        self._stream: socket.socket
        self._parser = Frames()

    def connect(self) -> Self:
        """Bring a new stream, as a ferry does."""
        ours, theirs = socket.socketpair()
        until(self._path.exists, "the hub to listen")
        link = sockets.connect_unix(str(self._path))
        sockets.send(link, b"ferry", [theirs.fileno(), theirs.fileno()])
        theirs.close()
        self.disconnect()
        self._link, self._stream, self._parser = link, ours, Frames()
        ours.settimeout(20)
        return self

    def disconnect(self) -> None:
        """Cut."""
        if self._link is not None:
            self._link.close()
            self._stream.close()
            self._link = None

    def say(self, kind: int, channel: int = 0, body: bytes = b"") -> None:
        """Send a frame."""
        self._stream.sendall(encode(kind, channel, body))

    def hello(self, channel: int, key: bytes, *, out: int = 0, may_begin: bool = True) -> None:
        """Want a command."""
        body = out.to_bytes(8, "little") + bytes(8) + bytes([may_begin]) + key
        self.say(Type.HELLO, channel, body)

    def raw(self, data: bytes) -> None:
        """Send anything."""
        self._stream.sendall(data)

    def hear(self, *wanted: int) -> Iterator[Frame]:
        """Yield frames until one of these kinds has come."""
        data = b""
        while True:
            for frame in self._parser.feed(data):
                yield frame
                if frame[0] in wanted:
                    return
            data = self._stream.recv(65536)
            assert data, "the hub has hung up"

    def close(self) -> None:
        """End it; it must not have ended by itself."""
        self.disconnect()
        assert self.process.poll() is None
        self.process.terminate()
        assert self.process.wait(10) == 0


def _served(binary: Path, folder: Path) -> Iterator[Hub]:
    made = Hub(binary, folder)
    try:
        yield made
        made.close()
    finally:
        made.disconnect()
        if made.process.poll() is None:
            end(made.process.pid)
            made.process.wait()


@pytest.fixture
def hub(binary: Path, tmp_path: Path) -> Iterator[Hub]:
    """A hub with nobody connected."""
    yield from _served(binary, tmp_path)


def _spec(*argv: str) -> bytes:
    return exec_spec(argv)


def test_output_comes_from_the_offset_that_is_named(hub: Hub) -> None:
    hub.connect().hello(1, b"boot.1.1")
    hub.say(_PART, 1, b"X" + _spec("/bin/sh", "-c", "echo 0123456789; exit 3"))
    hub.say(_START, 1, bytes([0, 1, 0, 0, 0, 0]))
    frames = [*hub.hear(_ENDED)]
    assert [kind for kind, _, _ in frames if kind in {_STATE, _STARTED, _ENDED}] == [_STATE, _STARTED, _ENDED]
    for known in (0, 4, 11):
        hub.connect().hello(9, b"boot.1.1", out=known)
        got, ended = b"", 0
        while ended < 2 or len(got) < 11 - known:
            for kind, _, body in hub.hear(_ENDED, _OUTPUT_END, _OUTPUT):
                got += body[9:] if kind == _OUTPUT else b""
                ended += kind == _OUTPUT_END
        assert got == b"0123456789\n"[known:]
    hub.say(_RELEASE, 9)
    hub.hello(2, b"boot.1.1", may_begin=False)
    assert list(hub.hear(Type.UNKNOWN))[-1][1] == 2


def test_what_is_said_twice_counts_once(hub: Hub) -> None:
    hub.connect().hello(1, b"boot.2.2")
    hub.say(_PART, 1, b"X" + _spec("/bin/sh", "-c", "cat; exit 4"))
    for _ in range(2):
        hub.say(_START, 1, bytes([0, 0, 0, 0, 0, 0]))
    for offset, piece in ((0, b"abc"), (0, b"abc"), (2, b"cde"), (9, b"never"), (5, b"f")):
        hub.say(_INPUT, 1, offset.to_bytes(8, "little") + piece)
    hub.say(_INPUT_END, 1, (6).to_bytes(8, "little"))
    frames: list[Frame] = []
    while not {_OUTPUT_END, _EMPTY} <= {kind for kind, _, _ in frames}:
        frames += hub.hear(_OUTPUT_END, _EMPTY)
    assert b"".join(body[9:] for kind, _, body in frames if kind == _OUTPUT) == b"abcdef"
    [ended] = [body for kind, _, body in frames if kind == _ENDED]
    assert ended[:5] == bytes([1]) + (4).to_bytes(4, "little")


_kinds = st.one_of(st.sampled_from(range(1, 11)), st.integers(0, 2**32 - 1))
_numbers = st.integers(0, 2**64 - 1).map(lambda number: number.to_bytes(8, "little"))
_sent = st.one_of(
    st.builds(encode, _kinds, st.integers(0, 3), st.binary(max_size=200)),
    st.builds(
        lambda kind, number, rest: encode(kind, 1, number + rest), _kinds, _numbers, st.binary(max_size=40)
    ),
    st.builds(
        lambda one, two, key: encode(Type.HELLO, 1, one + two + b"\1" + key),
        _numbers,
        _numbers,
        st.sampled_from([b"a", b"b.1.1"]),
    ),
    st.sampled_from(
        [
            encode(Type.HELLO, 1, bytes(16) + b"\1k"),
            encode(_START, 1, bytes(6)),
            encode(_START, 1, bytes([1, 0, 24, 0, 80, 0])),
            encode(_PART, 1, b"X" + exec_spec(("/bin/cat",))),
            encode(_WORDS, 1, (1).to_bytes(8, "little") + b"tree 9"),
            encode(_WORDS, 1, (2).to_bytes(8, "little") + b"deaf 0"),
            encode(Type.ABANDON, 0, b"k"),
            encode(_RELEASE, 1),
        ]
    ),
    st.binary(max_size=100),
)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(messages=st.lists(_sent, max_size=25))
def test_nonsense_from_outside_ends_no_hub(sanitized_hub: Hub, messages: list[bytes]) -> None:
    hub = sanitized_hub.connect()
    try:
        for message in messages:
            hub.raw(message)
    except OSError:
        pass  # it hung up, as it should
    hub.connect().say(Type.PING)
    assert list(hub.hear(Type.PONG))
    assert hub.process.poll() is None


@pytest.fixture
def sanitized_hub(sanitized: Path, tmp_path: Path) -> Iterator[Hub]:
    """A hub with the compiler's checks."""
    yield from _served(sanitized, tmp_path)
