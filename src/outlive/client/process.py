"""One process as the client sees it: `AsyncProcess`, a handle whose methods are requests to the server;
`Process` blocks.

The handle holds no state of the process and ends nothing when it is dropped. Output as it comes belongs to
`follow`, lost connections to `link`. One more method is a coroutine of `AsyncProcess`, and a line of
`Process`.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal

from outlive.client.follow import AsyncFollow, Follow
from outlive.client.link import ANSWER_S, Link, Links
from outlive.client.messages import read_info, read_page
from outlive.client.results import Gap, Output, Page, ProcessInfo, Stream
from outlive.client.runtime import Blocking, Runtime, blocking
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import AccessDenied, LimitExceeded
from outlive.core.identity import ProcessId

_FULL_PAUSE_S = 0.25
_WAIT_S = 45.0  # of one `wait` request; for a process that takes longer another one follows
_PAGE_BYTES = 256 * 1024  # the largest page

Until = Literal["complete", "closed", "input", "question"]


def position_of(cursor: Cursor | str) -> Cursor:
    """Return a cursor from either form.

    Raises:
        InvalidRequest: The text is no cursor.
    """
    return cursor if isinstance(cursor, Cursor) else Cursor.parse(cursor)


def _request(
    name: str, method: str, doc: str, **members: object
) -> Callable[["AsyncProcess"], Coroutine[Any, Any, None]]:
    """Return a method of `AsyncProcess` that is one request without parameters of the caller's."""

    async def call(self: "AsyncProcess") -> None:
        await self._ask(method, members)

    # As if it had been written out: tracebacks and `help` show these.
    call.__name__, call.__qualname__, call.__doc__ = name, f"AsyncProcess.{name}", doc
    return call


class AsyncProcess:
    """A process of the server; made by `AsyncClient.start` and `AsyncClient.get`.

    It is only a handle: dropping it changes nothing for the process. Every method connects again when the
    connection was lost. Every method may also raise `ProcessNotFound`, and `BackendUnavailable` when no
    server answers.

    Attributes:
        process_id: Its permanent name.
        pid: The kernel's number of its main process; None when it is not known any more.
        is_new: Whether `start` has started it; False for one that an earlier start with the same `key` had
            started.
    """

    def __init__(
        self,
        process_id: ProcessId,
        pid: int | None,
        *,
        links: Links,
        link: Link,
        world: Runtime,
        is_new: bool = False,
    ) -> None:
        """Send requests over `link`, which is one of `links`."""
        self.process_id = process_id
        self.pid = pid
        self.is_new = is_new
        self._links = links
        self._link = link
        self._world = world

    def __repr__(self) -> str:
        """Name it, so that it can be found by what is printed."""
        return f"{type(self).__name__}({self.process_id!r}, pid={self.pid})"

    def follow(self, cursor: Cursor | str = BEGINNING, *, raw: bool | None = False) -> AsyncFollow:
        """Return an iterator over its output from `cursor` on, also when it has ended.

        A process started with `detach=False` can be followed once at a time. `raw` hides no secrets and needs
        the scope admin; None hides them only where this caller may not see them.
        """
        return AsyncFollow(self._links, self.process_id, position_of(cursor), over=self._link, raw=raw)

    async def info(self, *, stats: bool = False) -> ProcessInfo:
        """Return what is known of it now, with `stats` also the state of its tree (some milliseconds of
        work).
        """
        return read_info(await self._ask("get", {"stats": stats}))

    async def wait(self, timeout_s: float | None = None, *, until: Until = "complete") -> ProcessInfo:
        """Return once it has ended and its output is whole, or (`is_complete` False) when the time is up.

        The process goes on after the time is up. With `until="closed"` the streams must have ended too:
        descendants may hold them open for longer. With `until="input"` it returns once it waits for input,
        too (`ProcessInfo.waiting`), with `until="question"` only if that is not the next command at its own
        prompt.

        Cancellation: safe; the process goes on.
        """
        deadline = None if timeout_s is None else self._world.now() + timeout_s
        while True:
            wait_s = _WAIT_S if deadline is None else min(_WAIT_S, max(0.0, deadline - self._world.now()))
            params = {"process_id": self.process_id, "until": until, "wait_s": wait_s}
            view = await self._link.request("wait", params, answer_s=ANSWER_S + wait_s)
            if not view["timed_out"] or (deadline is not None and self._world.now() >= deadline):
                return read_info(view)

    pause = _request(
        "pause",
        "control",
        """Stop the whole tree until `resume`. Repeating it is a success.

        Raises:
            InvalidState: It has ended.
        """,
        type="PAUSE",
    )
    resume = _request(
        "resume",
        "control",
        """Continue the whole tree. Repeating it is a success.

        Raises:
            InvalidState: It has ended.
        """,
        type="RESUME",
    )
    close_stdin = _request(
        "close_stdin",
        "close_stdin",
        """End its input: it reads end-of-file behind the bytes written so far.

        Raises:
            InvalidState: It has no input, or has ended.
        """,
    )

    async def cancel(self, grace_s: float | None = None) -> None:
        """End the whole tree: TERM now, KILL after the grace period (its own by default).

        `wait` returns when it is gone.

        Repeating it is a success; a shorter grace shortens the running one.

        Raises:
            InvalidState: It has ended.
        """
        grace = {} if grace_s is None else {"grace": grace_s}
        await self._ask("control", {"type": "CANCEL", **grace})

    async def signal(self, number: int | str, *, whole_tree: bool = False, whole_group: bool = False) -> None:
        """Send a signal ("INT", "SIGINT", 2) to the main process, to its process group, or to everything
        below it.

        Raises:
            InvalidState: It has ended.
            BackendUnavailable: `server_lost`: whether it was sent is not known.
        """
        # An enumeration's member too: JSON has plain numbers only.
        wanted = number if isinstance(number, str) else int(number)
        members = {"signal": wanted, "whole_tree": whole_tree, "whole_group": whole_group}
        await self._ask("signal", members, is_repeatable=False)

    async def read(
        self,
        cursor: Cursor | str = BEGINNING,
        *,
        limit_bytes: int = _PAGE_BYTES,
        raw: bool | None = False,
    ) -> Page:
        """Return one page of recorded output from `cursor` on, at most 256 KiB; nothing is waited for.

        `raw` as in `follow`.
        """
        position = position_of(cursor)
        limit = max(1, min(limit_bytes, _PAGE_BYTES))
        members: dict[str, object] = {"cursor": str(position), "limit": limit, "encoding": "base64"}
        if raw is not False:
            try:
                return read_page(await self._ask("read", {**members, "raw": True}), position)
            except AccessDenied:
                if raw is not None:
                    raise
        return read_page(await self._ask("read", members), position)

    async def tail(self, limit_bytes: int = 64 * 1024) -> Page:
        """Return the last output so far: at most `limit_bytes` of each stream, all of it in memory."""
        end = (await self.info()).cursor
        page = await self.read(Cursor(max(0, end.stdout - limit_bytes), max(0, end.stderr - limit_bytes)))
        items: list[Output | Gap] = [*page.items]
        while (
            page.items
            and page.has_more
            and (page.cursor.stdout < end.stdout or page.cursor.stderr < end.stderr)
        ):
            page = await self.read(page.cursor)
            items += page.items
        return Page(
            items=tuple(items), cursor=page.cursor, has_more=page.has_more, is_complete=page.is_complete
        )

    async def relabel(
        self, tags: Mapping[str, str | None], *, group: str | None = None, name: str | None = None
    ) -> ProcessInfo:
        """Set tags (None removes one; others stay) and, if they are named, its group and its name.

        Of a running or an ended process.

        Raises:
            InvalidRequest: There would be more than 64 tags, or one of them is too long.
            InvalidState: `process_queued`: it waits for its turn; or `name_taken`: another one that lives has
            the name.
        """
        members: dict[str, object] = {"tags": dict(tags)}
        members |= {key: value for key, value in (("group", group), ("name", name)) if value is not None}
        return read_info(await self._ask("relabel", members))

    async def write(self, data: bytes) -> None:
        """Write to its input.

        Returns when all of it is in the pipe or terminal, or waits there for its reader.

        Without a deadline: a process that does not read makes the caller wait. For one writer at a time.

        Raises:
            InvalidState: It has no input (`stdin_closed`), or has ended.
            BackendUnavailable: `server_lost`: whether the last megabyte of it was written is not known.

        Cancellation: up to one more megabyte may be written all the same.
        """
        if isinstance(data, str):
            raise TypeError("A process's input takes bytes, not str: write(text.encode()).")
        view = memoryview(data).cast("B")
        while view:
            try:
                view = view[await self._link.write(self.process_id, view) :]
            except LimitExceeded as error:
                if error.code != "stdin_full":
                    raise
                # The keeper already holds the waiting bytes: they must not be sent again.
                counts = (error.details.get(name, 0) for name in ("written_bytes", "waiting_bytes"))
                moved = sum(count for count in counts if isinstance(count, int))
                if not moved:  # the keeper's buffer is full: try again in a while
                    await self._link.pause(_FULL_PAUSE_S)
                view = view[moved:]

    async def resize(self, rows: int, cols: int) -> None:
        """Set its terminal's size.

        Raises:
            InvalidState: `no_terminal`, or it has ended.
        """
        await self._ask("resize", {"rows": rows, "cols": cols})

    async def ports(self) -> tuple[int, ...]:
        """Return the TCP ports on which it, or anything that it started, listens now."""
        return tuple((await self._ask("get", {"stats": True}))["stats"]["ports"])

    async def release(self, cursor: Cursor, *, unbound: bool = False) -> None:
        """Release the output before `cursor`, which was delivered.

        Only with `on_limit` "block", else nothing happens.

        With `unbound` the process no longer waits for a reader: from then on the middle is released, as with
        "truncate".
        """
        await self._ask("release", {"cursor": str(cursor), "unbound": unbound})

    async def close_output(self, stream: Stream) -> None:
        """Close the reading end of its pipe: a process that writes to it gets SIGPIPE.

        Repeating it is a success.

        Raises:
            InvalidRequest: It has a terminal, or stderr goes to the same pipe as stdout.
        """
        await self._ask("close_output", {"type": stream})

    async def close(self) -> None:
        """Give up this handle.

        A process started with `detach=False` is cancelled after the reconnect grace.
        """
        if self._link is not self._links.shared:
            await self._links.drop(self._link)

    async def _ask(
        self, method: str, members: Mapping[str, object], *, is_repeatable: bool = True
    ) -> Mapping[str, Any]:
        params = {"process_id": self.process_id, **members}
        return await self._link.request(method, params, is_repeatable=is_repeatable)


class Process(Blocking[AsyncProcess]):
    """`AsyncProcess` for programs without an event loop, made by `Client.start` and `Client.get`. May be used
    from several threads.
    """

    @property
    def process_id(self) -> ProcessId:
        """Its permanent name."""
        return self._twin.process_id

    @property
    def pid(self) -> int | None:
        """The kernel's number of its main process; None when it is not known any more."""
        return self._twin.pid

    @property
    def is_new(self) -> bool:
        """Whether `start` has started it; False for one that an earlier start with the same `key` had
        started.
        """
        return self._twin.is_new

    __repr__ = AsyncProcess.__repr__

    def follow(self, cursor: Cursor | str = BEGINNING, *, raw: bool | None = False) -> Follow:
        """Return an iterator over its output from `cursor` on; see `AsyncProcess.follow`."""
        return Follow(self._twin.follow(cursor, raw=raw))

    info = blocking(AsyncProcess.info)
    wait = blocking(AsyncProcess.wait)
    pause = blocking(AsyncProcess.pause)
    resume = blocking(AsyncProcess.resume)
    cancel = blocking(AsyncProcess.cancel)
    signal = blocking(AsyncProcess.signal)
    write = blocking(AsyncProcess.write)
    close_stdin = blocking(AsyncProcess.close_stdin)
    close_output = blocking(AsyncProcess.close_output)
    resize = blocking(AsyncProcess.resize)
    ports = blocking(AsyncProcess.ports)
    read = blocking(AsyncProcess.read)
    tail = blocking(AsyncProcess.tail)
    release = blocking(AsyncProcess.release)
    relabel = blocking(AsyncProcess.relabel)
    close = blocking(AsyncProcess.close)
