"""A supervisor that does what a test says: for what a real one does too seldom or too fast."""

import array
import asyncio
import contextlib
import os
import socket
from pathlib import Path

from outlive.core.layout import Layout
from outlive.kernel.sockets import connect_unix
from outlive.protocols.keeper import RECORD, Flags, decode_message, encode_message

SYNC = RECORD.pack(bytes(16), 0, 0, 0, 0, 0, 0, int(Flags.SYNC), 0)

Message = dict[str, object]


class FakeKeeper:
    """Listens on a state folder's keeper socket; one connection at a time."""

    def __init__(self, state_dir: Path) -> None:
        self.path = Layout(str(state_dir)).keeper_socket
        self.listener: socket.socket | None = None
        self.connection: socket.socket | None = None
        self.ensured = 0
        self.listen()

    def listen(self) -> None:
        """Listen (again)."""
        if self.listener is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.listener.setblocking(False)
            self.listener.bind(self.path)
            self.listener.listen(8)

    def connect(self, path: str) -> socket.socket:
        """What the backend connects with."""
        assert path == self.path
        return connect_unix(path)

    def ensure(self, _state_dir: str) -> None:
        """What the backend starts the keeper with: counts only."""
        self.ensured += 1

    async def accept(self) -> None:
        """Take the next connection."""
        assert self.listener is not None
        async with asyncio.timeout(10):
            self.connection, _ = await asyncio.get_running_loop().sock_accept(self.listener)
        self.connection.setblocking(False)

    async def greet(self, *bells: bytes) -> None:
        """Accept, answer the hello, tell what is live and that this is all."""
        await self.accept()
        hello, _ = await self.receive()
        assert (hello["op"], hello["role"]) == ("hello", "server")
        self.answer(hello, supervisor={"pid": 4242})
        self.send(b"D" + b"".join(bells) + SYNC)

    async def receive(self) -> tuple[Message, bytes]:
        """Return the next request and its payload, from the file that came with it if there is one."""
        assert self.connection is not None
        loop, connection = asyncio.get_running_loop(), self.connection
        readable = asyncio.Event()
        loop.add_reader(connection.fileno(), readable.set)
        try:
            async with asyncio.timeout(10):
                await readable.wait()
        finally:
            loop.remove_reader(connection.fileno())
        packet, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(4))
        message, payload = decode_message(packet)
        for _, _, raw in ancillary:
            [fd] = array.array("i", raw)
            payload = os.pread(fd, 1 << 26, 0)
            os.close(fd)
        return message, payload

    def send(self, packet: bytes) -> None:
        """Send anything."""
        assert self.connection is not None
        self.connection.send(packet)

    def answer(self, request: Message, **fields: object) -> None:
        """Answer a request; an `error` field makes it a refusal."""
        self.send(encode_message({"req": request["req"], "ok": "error" not in fields, **fields}))

    def die(self, *, listening: bool = False) -> None:
        """End the connection, and the listening unless told otherwise."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if not listening and self.listener is not None:
            self.listener.close()
            self.listener = None
