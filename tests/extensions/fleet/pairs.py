"""Two real servers, one as the other's node, and a proxy between them that can be cut."""

import asyncio
import contextlib
import errno
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from outlive.client import Client, Output, Process
from tests.support.processes import pause_after
from tests.support.server import OutliveServer, free_port, run_outlive

PATIENCE_S = 60.0
PROXY_HOST = "127.0.0.2"  # of this machine, and not one of the names that a server answers for by itself


def a_token(server: OutliveServer, name: str, scope: str = "run") -> str:
    """Make a token of a server and return its secret."""
    answer = run_outlive("token", "create", "--name", name, "--scope", scope, state_dir=server.state_dir)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


def wait_until(claim: Callable[[], object], *, patience_s: float = PATIENCE_S) -> None:
    """Return once `claim` holds (blocks)."""
    deadline = time.monotonic() + patience_s
    while True:
        begun = time.process_time()
        if claim():
            return
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(pause_after(time.process_time() - begun, least_s=0.01))


def output_of(process: Process) -> tuple[bytes, bytes]:
    """Follow a process to its completion; return stdout and stderr."""
    streams = {"stdout": bytearray(), "stderr": bytearray()}
    for item in process.follow():
        assert isinstance(item, Output), item
        streams[item.stream] += item.data
    return bytes(streams["stdout"]), bytes(streams["stderr"])


def node_state(near: OutliveServer, name: str = "far") -> dict[str, Any]:
    """Return what a server says of one of its nodes."""
    with Client(near.state_dir, start_server=False) as client:
        nodes: dict[str, dict[str, Any]] = {one["name"]: one for one in client.nodes()}
    return nodes[name]


async def _turns() -> None:
    """Return when transports that were aborted have closed their sockets, which takes the loop a turn
    each.
    """
    for _ in range(5):
        await asyncio.sleep(0)


class Proxy:
    """A TCP relay of a thread of its own; `cut` ends all connections and refuses new ones until `heal`.

    With `chop_bytes` set, each connection is cut after so many bytes have come back from the far side.
    """

    def __init__(self, target_port: int) -> None:
        self.port = free_port()
        self.chop: Callable[[], int] | None = None
        self._hears_far = threading.Event()  # while it is not set, nothing comes back, and nobody is told
        self._hears_far.set()
        self._flows = asyncio.Event()  # while it is not set, what comes back waits here
        self._flows.set()
        self.cuts = 0
        self.lag_s: dict[int, float] = {}  # by the number of a connection: how late all that comes back is
        self._taken = 0
        self._target = target_port
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._relays: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        while True:
            try:
                self.heal()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                self.port = free_port()  # somebody has taken the other one meanwhile
            else:
                return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _place: TracebackType | None
    ) -> None:
        """End everything."""
        self.cut()
        asyncio.run_coroutine_threadsafe(_turns(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    @property
    def taken(self) -> int:
        """How many connections were taken so far; they are counted from 0."""
        return self._taken

    def cut(self) -> None:
        """End all connections without a word, and let nobody in."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(5)

    def mute(self) -> None:
        """Let everything through to the far side, and nothing back, without a word."""
        self._hears_far.clear()

    def hold(self) -> None:
        """Let everything through to the far side, and keep what comes back until `heal`."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def heal(self) -> None:
        """Let connections in, and everything through."""
        self._hears_far.set()
        self._loop.call_soon_threadsafe(self._flows.set)
        asyncio.run_coroutine_threadsafe(self._heal(), self._loop).result(5)

    async def _heal(self) -> None:
        self._is_cut = False
        if self._server is None:
            self._server = await asyncio.start_server(self._take, PROXY_HOST, self.port)

    async def _cut(self) -> None:
        self._is_cut = True
        if self._server is not None:
            server, self._server = self._server, None
            # asyncio loses the socket of a connection that it is just accepting when its server is closed: it
            # takes no more first, and what it has accepted is made in two turns.
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
            for _ in range(3):
                await asyncio.sleep(0)
            server.close()
        self.cuts += 1
        for writer in self._writers:
            writer.transport.abort()
        for _ in range(3):  # what was accepted just now has its transport after two turns
            await asyncio.sleep(0)
        # Ours alone: a task of asyncio's that accepts a connection leaves its socket open when cancelled.
        relays = list(self._relays)
        for task in relays:
            task.cancel()
        await asyncio.gather(*relays, return_exceptions=True)

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:  # the kernel had accepted it before the listening socket was closed
            writer.transport.abort()
            return
        self._writers.add(writer)  # at once: a cut may come before the task's first step
        task = self._loop.create_task(self._relay(reader, writer))
        self._relays.add(task)
        task.add_done_callback(self._relays.discard)
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other: asyncio.StreamWriter | None = None
        number, self._taken = self._taken, self._taken + 1
        try:
            back, other = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(other)
            left = self.chop() if self.chop is not None else None
            await asyncio.gather(
                _pump(lambda: reader.read(65536), other, None), self._pump_back(back, writer, left, number)
            )
        except (OSError, EOFError, asyncio.CancelledError):
            self.cuts += 1
        finally:
            for each in (writer, other):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    async def _pump_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None, number: int
    ) -> None:
        async def heard() -> bytes:
            data = await reader.read(65536)
            while not self._hears_far.is_set() and data:
                data = await reader.read(65536)  # lost
            await self._flows.wait()
            await asyncio.sleep(self.lag_s.get(number, 0.0))
            return data

        await _pump(heard, writer, left)


async def _pump(read: Callable[[], Awaitable[bytes]], writer: asyncio.StreamWriter, left: int | None) -> None:
    while data := await read():
        if left is not None:
            left -= len(data)
            if left < 0:
                writer.write(data[:left])
                await asyncio.sleep(0)
                raise EOFError
        writer.write(data)
        await writer.drain()
    raise EOFError


class Pair:
    """A far server, a proxy before it, and a near server whose node "far" is that proxy."""

    def __init__(
        self,
        folder: Path,
        *,
        near_args: tuple[str, ...] = (),
        far_args: tuple[str, ...] = (),
        far_env: Mapping[str, str] | None = None,
    ) -> None:
        # The Host names the proxy.
        self.far = OutliveServer(folder / "far", args=("--public-name", PROXY_HOST, *far_args), env=far_env)
        self._folder = folder
        self._near_args = near_args
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start all three, and wait until the node is there."""
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        self._stack.enter_context(self.far)
        self.token = a_token(self.far, "near")
        tokens = self._folder / "tokens"
        tokens.touch(mode=0o600)
        tokens.write_text(f"far {self.token}\n")
        self.proxy = self._stack.enter_context(Proxy(self.far.port))
        words = ("--node", f"far=http://{PROXY_HOST}:{self.proxy.port}", "--node-tokens", str(tokens))
        self.near = OutliveServer(self._folder / "near", args=(*words, *self._near_args))
        self._stack.enter_context(self.near)
        self.connected()

    def connected(self) -> None:
        """Wait until the node is there."""
        wait_until(lambda: node_state(self.near)["state"] == "connected")

    def away(self) -> None:
        """Wait until the node is known to be away."""
        wait_until(lambda: node_state(self.near)["state"] == "away")

    def __exit__(self, *exception: object) -> None:
        """Stop all three; whoever was left is told."""
        self._stack.close()

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Return a client of the near server."""
        with Client(self.near.state_dir, start_server=False) as client:
            yield client

    @contextlib.contextmanager
    def far_client(self) -> Iterator[Client]:
        """Return a client of the far server that shows the near one's token."""
        with Client(url=self.far.url, token=self.token) as client:
            yield client
