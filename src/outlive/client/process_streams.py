"""A process's pipes and terminal, from the outside: what goes in, and what its output's reader gives back."""

from outlive.client.link import Link
from outlive.client.results import Stream
from outlive.core.cursor import Cursor
from outlive.core.errors import LimitExceeded
from outlive.core.identity import ProcessId

_FULL_PAUSE_S = 0.25


class AsyncPlumbing:
    """One half of `AsyncProcess`."""

    def __init__(self, process_id: ProcessId, link: Link) -> None:
        """Speak over `link`."""
        self.process_id = process_id
        self._link = link

    async def write(self, data: bytes) -> None:
        """Write to its input; returns when all of it is in the pipe or terminal, or waits there for its reader.

        Waits for a process that does not read for as long as that takes. For one writer at a time.

        Raises:
            InvalidState: It has no input (`stdin_closed`), or has ended.
            BackendUnavailable: `server_lost`: whether the last megabyte of it was written is not known.

        Cancellation: up to a megabyte behind what was written so far may be written all the same.
        """
        view = memoryview(data).cast("B")
        while view:
            try:
                view = view[await self._link.write(self.process_id, view) :]
            except LimitExceeded as error:
                if error.code != "stdin_full":
                    raise
                # What waits is in the keeper's hands already: not to be sent again.
                counts = (error.details.get(name, 0) for name in ("written_bytes", "waiting_bytes"))
                moved = sum(count for count in counts if isinstance(count, int))
                if not moved:  # the keeper holds all that it takes: ask again in a while
                    await self._link.pause(_FULL_PAUSE_S)
                view = view[moved:]

    async def close_stdin(self) -> None:
        """Let it read end-of-file behind what was written.

        Raises:
            InvalidState: It has no input, or has ended.
        """
        await self._link.request("close_stdin", {"process_id": self.process_id})

    async def resize(self, rows: int, cols: int) -> None:
        """Set its terminal's size.

        Raises:
            InvalidState: `no_terminal`, or it has ended.
        """
        await self._link.request("resize", {"process_id": self.process_id, "rows": rows, "cols": cols})

    async def ports(self) -> tuple[int, ...]:
        """Return the TCP ports on which it, or anything that it started, listens now."""
        view = await self._link.request("get", {"process_id": self.process_id, "stats": True})
        return tuple(view["stats"]["ports"])

    async def release(self, cursor: Cursor, *, unbound: bool = False) -> None:
        """Let go of output before `cursor`, which was delivered; only with `on_limit` "block", else nothing happens.

        With `unbound` it waits for no reader any more: from then on the middle is released, as with "truncate".
        """
        params = {"process_id": self.process_id, "cursor": str(cursor), "unbound": unbound}
        await self._link.request("release", params)

    async def close_output(self, stream: Stream) -> None:
        """Close the reading end of its pipe: whoever writes to it gets SIGPIPE. Repeating it is a success.

        Raises:
            InvalidRequest: It has a terminal, or stderr goes to the same pipe as stdout.
        """
        await self._link.request("close_output", {"process_id": self.process_id, "type": stream})
