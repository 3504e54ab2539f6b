"""Receivers of webhooks for tests: one that takes notices, and some that behave badly.

Real sockets on loopback.
"""

import asyncio
import contextlib
import json
import shlex
import sys
from typing import Any, Literal, Self

PATIENCE_S = 60

Channel = Literal["webhook", "command"]
_POST = "import sys, urllib.request as web; web.urlopen(sys.argv[1], sys.stdin.buffer.read())"


class Endpoint:
    """Listens on a free port; each request is answered as `answer` says and kept in `got`.

    Attributes:
        got: The notices, as they came.
        heads: The head of each request.
        answers: What is sent to the next requests, one each; then `answer` goes on.
    """

    def __init__(
        self,
        answer: bytes | None = b"HTTP/1.1 204 No Content\r\n\r\n",
        *,
        port: int = 0,
    ) -> None:
        self.got: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.answers: list[bytes | None] = []
        self._answer = answer
        self._port = port
        self._came = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """What an operator names."""
        return f"http://127.0.0.1:{self.port}/hook?token=a-token"

    def named(self, channel: Channel) -> dict[str, str]:
        """Return the environment of a server that notifies it, by itself or by a program."""
        if channel == "webhook":
            return {"OUTLIVE_NOTIFY_WEBHOOK": self.url}
        return {"OUTLIVE_NOTIFY_COMMAND": shlex.join([sys.executable, "-I", "-c", _POST, self.url])}

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Listen no more, and close what is open."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def came(self, count: int) -> list[dict[str, Any]]:
        """Return the notices once there are so many."""
        async with asyncio.timeout(PATIENCE_S), self._came:
            await self._came.wait_for(lambda: len(self.got) >= count)
        return self.got

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, EOFError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
                body = await reader.readexactly(length)
                async with self._came:
                    self.heads.append(head)
                    self.got.append(json.loads(body))
                    self._came.notify_all()
                answer = self.answers.pop(0) if self.answers else self._answer
                if answer is None:
                    await reader.read()  # until the other side gives up
                else:
                    writer.write(answer)
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()
