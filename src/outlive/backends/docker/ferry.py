"""The ferry of one container that no socket reaches; the program is `outlive.docker_ferry`.

It carries frames between the relays of the container's commands (`runner/relay.c`; they connect to `run/ferry.sock`) and one
stream through the Docker daemon, and keeps nothing: whatever is lost with a stream, or with the ferry itself, is said again
by those who know it. Which processes are relays of ours is told by `KeyOf`, not here: a process of our user may be a command.

Frames of the stream between relays here, the ferry, and the hub in a container, without any input or output. Pure.

A frame is three numbers of 32 bits, lowest byte first (size of what follows, channel, type), then its bytes; the types are
those of `runner/stream.h`. The daemon puts the container's bytes into frames of its own, which `Unpacker` takes off.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from enum import IntEnum
from pathlib import Path

from outlive.backends.docker.daemon_stream import ContainerGone, StreamSettings, open_stream

_HEAD = struct.Struct("<III")
_DAEMONS_HEAD = struct.Struct(">B3xI")
_MOST = 32768 + 64
_STDOUT = 1

Frame = tuple[int, int, bytes]  # type, channel, body


class Type(IntEnum):
    """What a ferry itself says or understands; all others it hands on."""

    HELLO = 1
    ABANDON = 9
    PING = 10
    UNKNOWN = 29
    KEY = 30
    PONG = 31
    LINK_UP = 40
    LINK_DOWN = 41


def encode(kind: int, channel: int, body: bytes = b"") -> bytes:
    """Return a frame's bytes."""
    return _HEAD.pack(len(body), channel, kind) + body


class Frames:
    """Takes bytes as they come, in whatever pieces, and gives whole frames. Keeps less than one frame."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now; to be used up before the next call.

        Raises:
            ValueError: What came is no frame; nothing after it can be understood.
        """
        data = self._rest + data if self._rest else data
        at = 0
        try:
            while len(data) - at >= _HEAD.size:
                size, channel, kind = _HEAD.unpack_from(data, at)
                if size > _MOST:
                    raise ValueError(f"a frame of {size} bytes")
                end = at + _HEAD.size + size
                if end > len(data):
                    break
                body, at = data[at + _HEAD.size : end], end
                yield kind, channel, body
        finally:
            self._rest = data[at:]


class Unpacker:
    """Takes off the daemon's own frames (Docker Engine API, "Stream format"), and leaves out what is not stdout."""

    def __init__(self) -> None:
        """Begin before a frame."""
        self._head = b""
        self._left = 0
        self._is_wanted = False
        self.complaint = b""  # what came on stderr, its beginning

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of stdout among what came."""
        view, pieces = memoryview(data), []
        while view:
            if not self._left:
                wanted = _DAEMONS_HEAD.size - len(self._head)
                self._head += view[:wanted]
                view = view[wanted:]
                if len(self._head) == _DAEMONS_HEAD.size:
                    stream, self._left = _DAEMONS_HEAD.unpack(self._head)
                    self._is_wanted = stream == _STDOUT
                    self._head = b""
                continue
            piece = view[: self._left]
            self._left -= len(piece)
            view = view[len(piece) :]
            if self._is_wanted:
                pieces.append(piece)
            elif len(self.complaint) < _MOST:
                self.complaint += piece
        return b"".join(pieces)


FERRY_FILE = "ferry.json"  # what `StreamSettings` holds, and "runner": the runner's file for this machine
LINKED_FILE = "linked"  # the container's id, while a stream leads into it
_SOCKET = "run/ferry.sock"
_SHORTEST_S, _LONGEST_S = 0.05, 2.0
_PING_S, _SILENCE_S = 5.0, 20.0
_AT_ONCE = 1 << 18
_MOST_WAITING = 1 << 20  # bytes towards the container before relays are not read any more
_MOST_ASKED_FOR = 4096  # connections whose process is not known yet; each takes a descriptor more meanwhile

# Returns the key ("BOOT.PID.TICKS") of the relay behind a connection, "" where the process there is none, or is not known in time.
KeyOf = Callable[[socket.socket], Awaitable[str]]


def ferry_argv(folder: str) -> list[str]:
    """Return the command line of a container's ferry."""
    return [sys.executable, "-s", "-P", "-m", "outlive.docker_ferry", folder]


def stand_argv(runner: str, folder: str, *, asks: bool) -> list[str]:
    """Return the command line of what stands for a container; `asks`: supervisors have to prove what they are (decision 151)."""
    return [runner, "stand", *(["--asks"] if asks else []), folder, *ferry_argv(folder)]


def is_owner_alive(key: str) -> bool:
    """Tell whether the relay that made a key ("BOOT.PID.TICKS") lives on this machine."""
    try:
        boot, pid, ticks = key.split(".")
        if not Path("/proc/sys/kernel/random/boot_id").read_text("ascii").startswith(boot):
            return False
        fields = Path(f"/proc/{int(pid)}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) == int(ticks) and fields[0] not in {b"Z", b"X"}
    except (OSError, ValueError, IndexError):
        return False


class _Relay(asyncio.Protocol):
    """The connection of one relay; not read before the process there is known."""

    def __init__(self, ferry: "Ferry") -> None:
        self._ferry = ferry
        self._frames = Frames()
        self.transport: asyncio.Transport
        self.channel = 0
        self.key = ""  # once it has said HELLO
        self.known_as = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment] # a Unix socket's is one
        self.transport.pause_reading()
        self._ferry.receive(self)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, _, body in self._frames.feed(data):
                self._hear(kind, body)
        except ValueError:
            self.transport.abort()

    def _hear(self, kind: int, body: bytes) -> None:
        if kind == Type.HELLO and body[17:].decode("ascii", "replace") == self.known_as:
            self.key = self.known_as
        elif kind == Type.HELLO or not self.key:
            raise ValueError("it does not name itself first, and would take the place of another relay")
        self._ferry.carry(self, kind, body)

    def connection_lost(self, _error: Exception | None) -> None:
        self._ferry.leave(self)


class Ferry:
    """For one event loop; `run` returns when the container is gone, or its folder."""

    def __init__(self, folder: str, key_of: KeyOf) -> None:
        """Take the container's folder, and what knows relays."""
        self._folder = Path(folder)
        self._key_of = key_of
        self._asked_for = 0
        self._relays: dict[int, _Relay] = {}
        self._last_channel = 0
        self._writer: asyncio.StreamWriter | None = None
        self._is_held_up = False
        self._heard_at = 0.0
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Carry until there is nothing left to stand for."""
        path = self._folder / _SOCKET
        path.unlink(missing_ok=True)
        os.chdir(self._folder)  # the whole path may be longer than sockets take
        async with self._tasks:
            server = await asyncio.get_running_loop().create_unix_server(lambda: _Relay(self), _SOCKET)
            path.chmod(0o600)
            pinging = self._tasks.create_task(self._ping(), name="ping")
            try:
                await self._keep_linked()
            finally:
                server.close()  # who has connected before is still answered
                pinging.cancel()
                self._note_linked("")
        for relay in self._relays.values():  # everything in the container has ended
            relay.transport.write(encode(Type.UNKNOWN, 0))
            relay.transport.close()
        await asyncio.sleep(0.2)

    # -- relays

    def receive(self, relay: _Relay) -> None:
        """Find out whether a process that has connected is a relay, and hang up on any other. A relay comes again by itself."""
        if self._asked_for == _MOST_ASKED_FOR:
            relay.transport.abort()
            return
        self._asked_for += 1
        self._tasks.create_task(self._receive(relay), name="receive a relay")

    async def _receive(self, relay: _Relay) -> None:
        try:
            relay.known_as = await self._key_of(relay.transport.get_extra_info("socket"))
        finally:
            self._asked_for -= 1
        if relay.known_as and not relay.transport.is_closing():
            self._join(relay)
        else:
            relay.transport.abort()

    def _join(self, relay: _Relay) -> None:
        """Give a relay a channel, and tell it whether anybody listens."""
        self._last_channel = (self._last_channel + 1) & 0xFFFFFFFF
        relay.channel = self._last_channel
        self._relays[relay.channel] = relay
        if not self._is_held_up:
            relay.transport.resume_reading()
        if self._writer is not None:
            relay.transport.write(encode(Type.LINK_UP, 0))

    def carry(self, relay: _Relay, kind: int, body: bytes) -> None:
        """Hand a relay's frame on; without a stream it is dropped: the relay says it again."""
        if self._writer is None:
            return
        self._writer.write(encode(kind, relay.channel, body))
        if not self._is_held_up and self._writer.transport.get_write_buffer_size() > _MOST_WAITING:
            self._is_held_up = True
            for other in self._relays.values():
                other.transport.pause_reading()
            self._tasks.create_task(self._let_through(self._writer), name="held up")

    async def _let_through(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await writer.drain()
        self._is_held_up = False
        for relay in self._relays.values():
            relay.transport.resume_reading()

    def leave(self, relay: _Relay) -> None:
        """Hear that a relay is gone: if it died, so shall its command."""
        self._relays.pop(relay.channel, None)
        if relay.key:
            self._abandon_if_dead(relay.key)

    def _abandon_if_dead(self, key: str) -> None:
        if self._writer is not None and not is_owner_alive(key):
            self._writer.write(encode(Type.ABANDON, 0, key.encode()))

    # -- the stream

    async def _keep_linked(self) -> None:
        pause_s, missed = _SHORTEST_S, 0
        while (settings := self._settings()) is not None:
            begun = time.monotonic()
            try:
                await self._link(settings)
                missed = 0
            except ContainerGone:
                missed += 1
                if missed > 1 and self._settings() == settings:
                    return
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                _log(f"no stream into {settings.container[:12]}: {error!r}")
            pause_s = min(2 * pause_s, _LONGEST_S) if time.monotonic() - begun < 1.0 else _SHORTEST_S
            await asyncio.sleep(pause_s)

    def _settings(self) -> StreamSettings | None:
        """Return where the container is now; None when nobody wants to know any more."""
        try:
            found = json.loads((self._folder / FERRY_FILE).read_bytes())
        except FileNotFoundError:
            return None
        return StreamSettings(
            host=found["host"],
            cert_folder=found["cert_folder"],
            container=found["container"],
            command=tuple(found["command"]),
        )

    async def _link(self, settings: StreamSettings) -> None:
        """Open a stream and carry until it breaks."""
        reader, writer = await open_stream(settings)
        unpacker, frames = Unpacker(), Frames()
        self._heard_at = time.monotonic()
        self._writer = writer
        for relay in self._relays.values():
            relay.transport.write(encode(Type.LINK_UP, 0))
        try:
            while data := await reader.read(_AT_ONCE):
                self._heard_at = time.monotonic()
                for kind, channel, body in frames.feed(unpacker.feed(data)):
                    self._deliver(kind, channel, body, settings)
            raise EOFError(unpacker.complaint.decode(errors="replace")[:300] or "it was closed")
        finally:
            self._writer = None
            self._note_linked("")
            writer.close()
            for relay in self._relays.values():
                relay.transport.write(encode(Type.LINK_DOWN, 0))

    def _deliver(self, kind: int, channel: int, body: bytes, settings: StreamSettings) -> None:
        if kind == Type.KEY and body:
            self._abandon_if_dead(body.decode("ascii", "replace"))
        elif kind == Type.KEY:
            self._note_linked(settings.container)
        elif kind != Type.PONG and (relay := self._relays.get(channel)) is not None:
            relay.transport.write(encode(kind, 0, body))

    async def _ping(self) -> None:
        """Find out that a stream is dead which nobody has closed."""
        while True:
            await asyncio.sleep(_PING_S)
            if (writer := self._writer) is None:
                continue
            writer.write(encode(Type.PING, 0))
            if time.monotonic() - self._heard_at > _SILENCE_S:
                _log("the stream is silent")
                writer.transport.abort()

    def _note_linked(self, container: str) -> None:
        path = self._folder / LINKED_FILE
        with contextlib.suppress(OSError):  # the folder may be gone
            if container:
                path.write_text(container)
            else:
                path.unlink(missing_ok=True)


def _log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} ferry: {text}\n")  # ferry.log
    sys.stderr.flush()


if __name__ == "__main__":
    # What an earlier version has left standing starts a ferry by this name.
    os.execv(sys.executable, ferry_argv(sys.argv[1]))
