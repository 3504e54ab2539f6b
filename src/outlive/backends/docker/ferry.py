"""The tunnel into one container that no socket reaches: `Tunnel`, which the program `outlive.docker_ferry` runs.

It carries frames between the endpoints of the container's commands (native/tunnel/endpoint.c: one process for each command, connected
to `run/ferry.sock`) and the multiplexer inside (native/tunnel/multiplexer.c), over one stream through the Docker daemon. It stores
nothing: frames that are lost with a stream, or with the tunnel's process, are sent again by the endpoints or the multiplexer. `KeyOf`
decides, outside of this module, which processes are endpoints: a process of the same user may be a command.

A frame is three numbers of 32 bits, lowest byte first (size of the body, channel, type), then the body; the types are those of
native/tunnel/frames.h. `Frames` and `Unpacker` are pure. The daemon wraps the container's bytes in frames of its own, which `Unpacker`
removes.

Files, sockets and this module are called "ferry" because container proxies that are running now start and look for them by that name.
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

from outlive.backends.docker.api import ContainerGone, StreamSettings, open_stream

_HEAD = struct.Struct("<III")
_DAEMONS_HEAD = struct.Struct(">B3xI")
# The largest body: a piece of output and the fields before it (BODY_BYTES in native/tunnel/frames.h).
_MOST = 32768 + 64
_STDOUT = 1

Frame = tuple[int, int, bytes]  # type, channel, body


class Type(IntEnum):
    """The types of frames that a tunnel sends or understands itself; it passes all others on."""

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
    """Takes bytes in any pieces and returns whole frames. Keeps less than one frame."""

    def __init__(self) -> None:
        """Begin before a frame."""
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now; to be used up before the next call.

        Raises:
            ValueError: The bytes are no frame, and nothing after them can be understood.
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
    """Removes the daemon's own frames (Docker Engine API, "Stream format"), and drops everything but stdout."""

    def __init__(self) -> None:
        """Begin before a frame."""
        self._head = b""
        self._left = 0
        self._is_wanted = False
        self.complaint = b""  # the beginning of stderr, for the log

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of stdout in `data`."""
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


TUNNEL_FILE = (
    "ferry.json"  # the members of `StreamSettings`, and "runner": the runner's file for this machine
)
LINKED_FILE = "linked"  # the container's id, while a stream leads into it
_SOCKET = "run/ferry.sock"
_SHORTEST_S, _LONGEST_S = 0.05, 2.0  # pauses between attempts to open a stream
_PING_S, _SILENCE_S = 5.0, 20.0  # a stream counts as dead after four pings without an answer
_AT_ONCE = 1 << 18
_MOST_WAITING = 1 << 20  # bytes that wait towards the container; beyond it no endpoint is read
_MOST_ASKED_FOR = 4096  # connections whose process is not known yet; each needs one more descriptor meanwhile

# Returns the key ("BOOT.PID.TICKS") of the endpoint behind a connection; "" when the process is none, or is not known in time.
KeyOf = Callable[[socket.socket], Awaitable[str]]


def tunnel_argv(folder: str) -> list[str]:
    """Return the command line of a container's tunnel."""
    return [sys.executable, "-s", "-P", "-m", "outlive.docker_ferry", folder]


def proxy_argv(runner: str, folder: str, *, asks: bool) -> list[str]:
    """Return the command line of a container's proxy (native/tunnel/container_proxy.c); `asks`: it asks supervisors for a proof (decision 151)."""
    return [runner, "stand", *(["--asks"] if asks else []), folder, *tunnel_argv(folder)]


def is_owner_alive(key: str) -> bool:
    """Tell whether the endpoint that made a key ("BOOT.PID.TICKS") lives on this machine."""
    try:
        boot, pid, ticks = key.split(".")
        if not Path("/proc/sys/kernel/random/boot_id").read_text("ascii").startswith(boot):
            return False
        fields = Path(f"/proc/{int(pid)}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[19]) == int(ticks) and fields[0] not in {b"Z", b"X"}
    except (OSError, ValueError, IndexError):
        return False


class _EndpointLink(asyncio.Protocol):
    """The connection of one endpoint; nothing is read before the process at its other end is known."""

    def __init__(self, tunnel: "Tunnel") -> None:
        self._tunnel = tunnel
        self._frames = Frames()
        self.transport: asyncio.Transport
        self.channel = 0
        self.key = ""  # its key, once it has sent HELLO
        self.known_as = ""  # the key of the process at the other end, as the kernel's facts give it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment] # a Unix socket's is one
        self.transport.pause_reading()
        self._tunnel.receive(self)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, _, body in self._frames.feed(data):
                self._take(kind, body)
        except ValueError:
            self.transport.abort()

    def _take(self, kind: int, body: bytes) -> None:
        # An endpoint names itself first. A wrong name would take the place of another command's endpoint.
        if kind == Type.HELLO and body[17:].decode("ascii", "replace") == self.known_as:
            self.key = self.known_as
        elif kind == Type.HELLO or not self.key:
            raise ValueError("it does not name itself first, and would take the place of another endpoint")
        self._tunnel.carry(self, kind, body)

    def connection_lost(self, _error: Exception | None) -> None:
        self._tunnel.leave(self)


class Tunnel:
    """The tunnel into one container, for one event loop; `run` returns when the container or its folder is gone."""

    def __init__(self, folder: str, key_of: KeyOf) -> None:
        """Take the container's folder, and the function that recognizes endpoints."""
        self._folder = Path(folder)
        self._key_of = key_of
        self._asked_for = 0
        self._endpoints: dict[int, _EndpointLink] = {}
        self._last_channel = 0
        self._writer: asyncio.StreamWriter | None = None
        self._is_held_up = False
        self._heard_at = 0.0
        self._tasks = asyncio.TaskGroup()

    async def run(self) -> None:
        """Carry frames until the container is gone."""
        path = self._folder / _SOCKET
        path.unlink(missing_ok=True)
        os.chdir(self._folder)  # the whole path may be longer than sockets take
        async with self._tasks:
            server = await asyncio.get_running_loop().create_unix_server(lambda: _EndpointLink(self), _SOCKET)
            path.chmod(0o600)
            pinging = self._tasks.create_task(self._ping(), name="ping")
            try:
                await self._keep_linked()
            finally:
                server.close()  # endpoints that are connected still get their last frame below
                pinging.cancel()
                self._note_linked("")
        for endpoint in self._endpoints.values():  # everything in the container has ended
            endpoint.transport.write(encode(Type.UNKNOWN, 0))
            endpoint.transport.close()
        await asyncio.sleep(0.2)

    # -- endpoints

    def receive(self, endpoint: _EndpointLink) -> None:
        """Accept a connection if its process is an endpoint, else close it. An endpoint connects again by itself."""
        if self._asked_for == _MOST_ASKED_FOR:
            endpoint.transport.abort()
            return
        self._asked_for += 1
        self._tasks.create_task(self._receive(endpoint), name="receive an endpoint")

    async def _receive(self, endpoint: _EndpointLink) -> None:
        try:
            endpoint.known_as = await self._key_of(endpoint.transport.get_extra_info("socket"))
        finally:
            self._asked_for -= 1
        if endpoint.known_as and not endpoint.transport.is_closing():
            self._join(endpoint)
        else:
            endpoint.transport.abort()

    def _join(self, endpoint: _EndpointLink) -> None:
        """Give an endpoint a channel, and notify it if a stream is open."""
        self._last_channel = (self._last_channel + 1) & 0xFFFFFFFF
        endpoint.channel = self._last_channel
        self._endpoints[endpoint.channel] = endpoint
        if not self._is_held_up:
            endpoint.transport.resume_reading()
        if self._writer is not None:
            endpoint.transport.write(encode(Type.LINK_UP, 0))

    def carry(self, endpoint: _EndpointLink, kind: int, body: bytes) -> None:
        """Pass an endpoint's frame on; without a stream it is dropped: the endpoint sends it again."""
        if self._writer is None:
            return
        self._writer.write(encode(kind, endpoint.channel, body))
        # Back-pressure: a slow stream stops the reading of all endpoints, and so their commands' input, not memory.
        if not self._is_held_up and self._writer.transport.get_write_buffer_size() > _MOST_WAITING:
            self._is_held_up = True
            for other in self._endpoints.values():
                other.transport.pause_reading()
            self._tasks.create_task(self._let_through(self._writer), name="held up")

    async def _let_through(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await writer.drain()
        self._is_held_up = False
        for endpoint in self._endpoints.values():
            endpoint.transport.resume_reading()

    def leave(self, endpoint: _EndpointLink) -> None:
        """Forget an endpoint; if its process has died, its command in the container is ended, too."""
        self._endpoints.pop(endpoint.channel, None)
        if endpoint.key:
            self._abandon_if_dead(endpoint.key)

    def _abandon_if_dead(self, key: str) -> None:
        if self._writer is not None and not is_owner_alive(key):
            self._writer.write(encode(Type.ABANDON, 0, key.encode()))

    # -- the stream

    async def _keep_linked(self) -> None:
        """Open one stream after another, until the container or its folder is gone."""
        pause_s, missed = _SHORTEST_S, 0
        while (settings := self._settings()) is not None:
            begun = time.monotonic()
            try:
                await self._link(settings)
                missed = 0
            except ContainerGone:
                missed += 1
                # Twice with the same id: else a new container, whose id is about to be written, might just have come.
                if missed > 1 and self._settings() == settings:
                    return
            except (OSError, EOFError, ValueError, TimeoutError) as error:
                _log(f"no stream into {settings.container[:12]}: {error!r}")
            pause_s = min(2 * pause_s, _LONGEST_S) if time.monotonic() - begun < 1.0 else _SHORTEST_S
            await asyncio.sleep(pause_s)

    def _settings(self) -> StreamSettings | None:
        """Return the container's present settings; None when its folder is gone."""
        try:
            found = json.loads((self._folder / TUNNEL_FILE).read_bytes())
        except FileNotFoundError:
            return None
        return StreamSettings(
            host=found["host"],
            cert_folder=found["cert_folder"],
            container=found["container"],
            command=tuple(found["command"]),
        )

    async def _link(self, settings: StreamSettings) -> None:
        """Open a stream and carry frames until it breaks."""
        reader, writer = await open_stream(settings)
        unpacker, frames = Unpacker(), Frames()
        self._heard_at = time.monotonic()
        self._writer = writer
        for endpoint in self._endpoints.values():
            endpoint.transport.write(encode(Type.LINK_UP, 0))
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
            for endpoint in self._endpoints.values():
                endpoint.transport.write(encode(Type.LINK_DOWN, 0))

    def _deliver(self, kind: int, channel: int, body: bytes, settings: StreamSettings) -> None:
        """Pass a frame of the container on. It lists the keys of its commands first; an empty key ends the list."""
        if kind == Type.KEY and body:
            self._abandon_if_dead(body.decode("ascii", "replace"))
        elif kind == Type.KEY:
            self._note_linked(settings.container)
        elif kind != Type.PONG and (endpoint := self._endpoints.get(channel)) is not None:
            endpoint.transport.write(encode(kind, 0, body))

    async def _ping(self) -> None:
        """Close a stream that is dead without having been closed."""
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
    # A container proxy that an earlier version has started starts its tunnel by this name.
    os.execv(sys.executable, tunnel_argv(sys.argv[1]))
