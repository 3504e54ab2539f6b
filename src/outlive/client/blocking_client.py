"""The blocking twins: `Client`, `Process`, `Follow`, `Events`. No logic: each method runs its coroutine to the end.

What each method does is written once, at the asynchronous twin (`client`, `process`, `follow`, `feed`); waiting is
`thread_runtime`'s. `tests/client/test_twins.py` holds that both sides offer the same names and parameters.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, Unpack

from outlive.client.address import say_nothing
from outlive.client.client import AsyncClient, AsyncTerminals, TerminalCall
from outlive.client.feed import AsyncEvents
from outlive.client.follow import AsyncFollow
from outlive.client.options import StartOptions
from outlive.client.process import AsyncProcess, Until
from outlive.client.results import (
    Completion,
    Gap,
    Output,
    Page,
    PendingApproval,
    ProcessEvent,
    ProcessInfo,
    Stream,
)
from outlive.client.runtime import run
from outlive.client.thread_runtime import ThreadRuntime
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.identity import ProcessId

# Spelled out here because inside the class `list` is the method.
_Infos = list[ProcessInfo]
_Approvals = list[PendingApproval]
_Nodes = list[dict[str, Any]]


async def _next(follow: AsyncFollow) -> Output | Gap | None:
    return await anext(follow, None)


async def _next_event(events: AsyncEvents) -> ProcessEvent | None:
    return await anext(events, None)


class Follow:
    """`AsyncFollow` for programs without an event loop: an iterator over a process's output, for one thread."""

    def __init__(self, follow: AsyncFollow) -> None:
        """Made by `Process.follow` and `Client.attach`."""
        self._follow = follow

    @property
    def process_id(self) -> str:
        """Whose output."""
        return self._follow.process_id

    @property
    def completion(self) -> Completion | None:
        """How the process ended, once the iteration has."""
        return self._follow.completion

    @property
    def cursor(self) -> Cursor:
        """Everything before it was given out."""
        return self._follow.cursor

    @property
    def redacted(self) -> int:
        """How many secrets were stars in what was given out."""
        return self._follow.redacted

    def __iter__(self) -> Self:
        """Go on."""
        return self

    def __next__(self) -> Output | Gap:
        """Return the next bytes, or what is missing of them; see `AsyncFollow`."""
        item = run(_next(self._follow))
        if item is None:
            raise StopIteration
        return item

    def close(self) -> None:
        """Follow no more. Safe to repeat."""
        run(self._follow.close())

    def __enter__(self) -> Self:
        """Nothing is opened before the first item is asked for."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()


class Events:
    """`AsyncEvents` for programs without an event loop: an iterator over what happens, for one thread."""

    def __init__(self, events: AsyncEvents) -> None:
        """Made by `Client.events`."""
        self._events = events

    def __iter__(self) -> Self:
        """Go on."""
        return self

    def __next__(self) -> ProcessEvent:
        """Return the next event, however long that takes; see `AsyncEvents`."""
        event = run(_next_event(self._events))
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Listen no more. Safe to repeat."""
        run(self._events.close())

    def __enter__(self) -> Self:
        """Listen from now on; without `with` that is so from the first item on."""
        run(self._events.__aenter__())
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()


class _Plumbing:
    """`AsyncPlumbing` for programs without an event loop."""

    _process: AsyncProcess

    def write(self, data: bytes) -> None:
        """Write to its input; see `AsyncProcess.write`."""
        run(self._process.write(data))

    def close_stdin(self) -> None:
        """Let it read end-of-file behind what was written; see `AsyncProcess.close_stdin`."""
        run(self._process.close_stdin())

    def resize(self, rows: int, cols: int) -> None:
        """Set its terminal's size; see `AsyncProcess.resize`."""
        run(self._process.resize(rows, cols))

    def ports(self) -> tuple[int, ...]:
        """Return the TCP ports on which its tree listens now."""
        return run(self._process.ports())

    def release(self, cursor: Cursor, *, unbound: bool = False) -> None:
        """Let go of delivered output; see `AsyncProcess.release`."""
        run(self._process.release(cursor, unbound=unbound))

    def close_output(self, stream: Stream) -> None:
        """Close the reading end of its pipe; see `AsyncProcess.close_output`."""
        run(self._process.close_output(stream))


class Process(_Plumbing):
    """`AsyncProcess` for programs without an event loop. May be used from several threads."""

    def __init__(self, process: AsyncProcess) -> None:
        """Made by `Client.start` and `Client.get`."""
        self._process = process

    @property
    def process_id(self) -> ProcessId:
        """Its permanent name."""
        return self._process.process_id

    @property
    def pid(self) -> int | None:
        """The kernel's number of its main process; None when it is not known any more."""
        return self._process.pid

    def follow(self, cursor: Cursor | str = BEGINNING, *, raw: bool | None = False) -> Follow:
        """Return an iterator over its output from `cursor` on; see `AsyncProcess.follow`."""
        return Follow(self._process.follow(cursor, raw=raw))

    def info(self, *, stats: bool = False) -> ProcessInfo:
        """Return what is known of it now; see `AsyncProcess.info`."""
        return run(self._process.info(stats=stats))

    def wait(self, timeout_s: float | None = None, *, until: Until = "complete") -> ProcessInfo:
        """Return once it has ended and its output is whole, or (`is_complete` False) when the time is up."""
        return run(self._process.wait(timeout_s, until=until))

    def pause(self) -> None:
        """Stop the whole tree until `resume`; see `AsyncProcess.pause`."""
        run(self._process.pause())

    def resume(self) -> None:
        """Continue the whole tree; see `AsyncProcess.resume`."""
        run(self._process.resume())

    def cancel(self, grace_s: float | None = None) -> None:
        """End the whole tree: TERM now, KILL after the grace; see `AsyncProcess.cancel`."""
        run(self._process.cancel(grace_s))

    def signal(self, number: int | str, *, whole_tree: bool = False, whole_group: bool = False) -> None:
        """Send a signal; see `AsyncProcess.signal`."""
        run(self._process.signal(number, whole_tree=whole_tree, whole_group=whole_group))

    def read(
        self, cursor: Cursor | str = BEGINNING, *, limit_bytes: int = 256 * 1024, raw: bool | None = False
    ) -> Page:
        """Return one page of recorded output from `cursor` on; see `AsyncProcess.read`."""
        return run(self._process.read(cursor, limit_bytes=limit_bytes, raw=raw))

    def tail(self, limit_bytes: int = 64 * 1024) -> Page:
        """Return the last output so far: at most `limit_bytes` of each stream."""
        return run(self._process.tail(limit_bytes))

    def relabel(self, tags: Mapping[str, str | None], *, group: str | None = None) -> ProcessInfo:
        """Set and remove tags, and name its group; see `AsyncProcess.relabel`."""
        return run(self._process.relabel(tags, group=group))

    def close(self) -> None:
        """Give up this handle; see `AsyncProcess.close`."""
        run(self._process.close())


class _Terminals:
    """`AsyncTerminals` for programs without an event loop."""

    def __init__(self, terminals: AsyncTerminals) -> None:
        """Ask through these."""
        self._terminals = terminals

    def call(self, call: TerminalCall, **members: Any) -> Mapping[str, Any]:  # noqa: ANN401 -- JSON
        """Make a call of docs/terminals.md; see `AsyncTerminals.call`."""
        return run(self._terminals.call(call, **members))


class _Places:
    """Questions to the server about its backends; see `Backends`."""

    _client: AsyncClient

    def default_backend(self) -> str:
        """Return where commands run that name no backend; see `AsyncClient.default_backend`."""
        return run(self._client.default_backend())

    def degraded(self) -> str | None:
        """Return why the server can start nothing now; see `AsyncClient.degraded`."""
        return run(self._client.degraded())

    def nodes(self) -> _Nodes:
        """Return the other servers that run commands for this one; see `AsyncClient.nodes`."""
        return run(self._client.nodes())


class Client(_Places):
    """`AsyncClient` for programs without an event loop. May be used from several threads.

    A `with` block closes its connections at the end; processes go on, except those started with `detach=False`.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        start_server: bool = True,
        after_stop: bool = False,
        patience_s: float = 30.0,
        say: Callable[[str], None] = say_nothing,
    ) -> None:
        """Name the server; nothing is opened before the first request. The arguments are those of `AsyncClient`."""
        self._client = AsyncClient(
            state_dir,
            url=url,
            token=token,
            ca_file=ca_file,
            start_server=start_server,
            after_stop=after_stop,
            patience_s=patience_s,
            say=say,
            world=ThreadRuntime(),
        )
        self.terminals = _Terminals(self._client.terminals)

    def __enter__(self) -> Self:
        """Nothing is opened before it is needed."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close all connections; a call that still waits raises `server_unavailable`. Safe to repeat."""
        run(self._client.close())

    def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> Process:
        """Start a command and return once it runs; see `AsyncClient.start`."""
        return Process(run(self._client.start(command, **options)))

    def get(self, process_id: str) -> Process:
        """Return a process by its name, running or ended; see `AsyncClient.get`."""
        return Process(run(self._client.get(process_id)))

    def attach(self, process_id: str, cursor: Cursor | str = BEGINNING) -> Follow:
        """Return an iterator over a process's output from `cursor` on; see `AsyncProcess.follow`."""
        return Follow(self._client.attach(process_id, cursor))

    def list(
        self,
        *,
        active: bool | None = None,
        group: str | None = None,
        tags: Mapping[str, str] | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> _Infos:
        """Return processes of this user, newest first; see `AsyncClient.list`."""
        return run(self._client.list(active=active, group=group, tags=tags, before=before, limit=limit))

    def approvals(self, *, raw: bool = False) -> _Approvals:
        """Return what waits for an approval; see `AsyncClient.approvals`."""
        return run(self._client.approvals(raw=raw))

    def approve(self, process_id: str, digest: str) -> ProcessInfo:
        """Let a process start that waits for an approval; see `AsyncClient.approve`."""
        return run(self._client.approve(process_id, digest))

    def deny(self, process_id: str, reason: str = "") -> ProcessInfo:
        """End a process that waits for an approval; see `AsyncClient.deny`."""
        return run(self._client.deny(process_id, reason))

    def remove(self, process_id: str, *, force: bool = False) -> None:
        """Forget a finished process; see `AsyncClient.remove`."""
        run(self._client.remove(process_id, force=force))

    def events(
        self,
        *,
        events: Sequence[str] | None = None,
        process_ids: Sequence[str] | None = None,
        group: str | None = None,
        tags: Mapping[str, str] | None = None,
        states: Sequence[str] | None = None,
    ) -> Events:
        """Return an iterator over what happens, as it happens; see `AsyncClient.events`."""
        asynchronous = self._client.events(
            events=events, process_ids=process_ids, group=group, tags=tags, states=states
        )
        return Events(asynchronous)
