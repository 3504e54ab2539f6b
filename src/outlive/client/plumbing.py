"""A process's pipes and terminal, from the outside: what goes in, and what its output's reader gives back."""

import base64

from outlive.client.link import Link
from outlive.client.results import Stream
from outlive.core.cursor import Cursor
from outlive.core.errors import LimitExceeded
from outlive.core.identity import ProcessId

__all__ = ["AsyncPlumbing"]

_PIECE_BYTES = 64 * 1024  # what the server hands over at once: of less nothing needs to be counted


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
            BackendUnavailable: `server_lost`: whether the last 64 KiB of it were written is not known.

        Cancellation: up to 64 KiB behind what was written so far may be written all the same.
        """
        view = memoryview(data)
        while view:
            piece = view[:_PIECE_BYTES]
            params = {
                "process_id": self.process_id,
                "data": base64.b64encode(piece).decode("ascii"),
                "encoding": "base64",
            }
            try:
                await self._link.request("write", params, is_repeatable=False)
            except LimitExceeded as error:
                if error.code != "stdin_full":
                    raise
                waiting = error.details.get("waiting_bytes", 0)  # in the keeper's hands: not to be sent again
                view = view[waiting if isinstance(waiting, int) else 0 :]
            else:
                view = view[len(piece) :]

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
