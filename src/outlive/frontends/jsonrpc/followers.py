"""The followers of one channel: at most one for each process."""

from collections.abc import Callable

import msgspec

from outlive.core.cursor import BEGINNING, Cursor
from outlive.engine import Process
from outlive.frontends.jsonrpc.readers import LineReader, PieceReader, SilentReader, StreamReader
from outlive.frontends.jsonrpc.subscription import Subscription
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.jsonrpc.params import OutputMode
from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.outbox import Outbox
from outlive.server.sender import Sender, Spawn
from outlive.store.output_log import OutputLog

# Output read in one turn. Lines: measured CPU per line of 80 bytes is 1.4 : 1.2 : 1.1 : 1 at 16, 32, 64 and 128 KiB; a
# turn takes 0.4 ms then, and never more than `lines.MAX_LINES` lines. Pieces: what one `pread` may return.
_LINES_TURN_BYTES = 128 * 1024
_PIECES_TURN_BYTES = 256 * 1024


class OutputFormat(msgspec.Struct, frozen=True):
    """How a process's output is sent; `is_raw` hides no secrets."""

    mode: OutputMode
    max_line_bytes: int
    is_raw: bool = False


class Followers:
    """Starts, holds and ends followers; what has said its last word is dropped at the next start."""

    __slots__ = ("_fail", "_followers", "_formats", "_heads", "_outbox", "_spawn")

    def __init__(self, outbox: Outbox, heads: FrameHeads, *, spawn: Spawn, fail: Callable[[], None]) -> None:
        """Send to `outbox`; `heads` are shared by the whole server, `spawn` and `fail` are `Sender`'s."""
        self._outbox = outbox
        self._heads = heads
        self._spawn = spawn
        self._fail = fail
        self._followers: dict[str, Sender[Subscription]] = {}
        self._formats: dict[str, OutputFormat] = {}

    def follow(self, process: Process, cursor: Cursor, form: OutputFormat) -> None:
        """Send the process from `cursor` on; a subscription that it had here ends silently."""
        self._drop_ended()
        self.drop(process.process_id)
        is_lines = form.mode == "lines"
        log = process.raw_log if form.is_raw else process.log
        follower = Sender(
            Subscription(
                process,
                (
                    self._reader(process.process_id, log, 0, cursor.stdout, form),
                    self._reader(process.process_id, log, 1, cursor.stderr, form),
                ),
                turn_bytes=_LINES_TURN_BYTES if is_lines else _PIECES_TURN_BYTES,
                log=log,
            ),
            self._outbox,
            spawn=self._spawn,
            fail=self._fail,
            shows_partial=is_lines and process.has_stdin,
            reads=form.mode != "none",
        )
        self._followers[process.process_id] = follower
        self._formats[process.process_id] = form
        follower.begin()

    def _reader(
        self, process_id: str, log: OutputLog, stream: int, start: int, form: OutputFormat
    ) -> StreamReader:
        if form.mode == "lines":
            return LineReader(
                log,
                self._heads,
                process_id,
                stream=stream,
                start=start,
                max_line_bytes=form.max_line_bytes,
            )
        if form.mode == "none":
            return SilentReader(stream=stream, start=start)
        return PieceReader(log, process_id, stream=stream, start=start, is_binary=form.mode == "binary")

    def drop(self, process_id: str) -> None:
        """End a process's subscription silently, if there is one."""
        follower = self._followers.pop(process_id, None)
        self._formats.pop(process_id, None)
        if follower is not None:
            follower.close()

    def _drop_ended(self) -> None:
        for process_id in [key for key, follower in self._followers.items() if follower.subscription.is_over]:
            self.drop(process_id)

    def hold(self, process_id: str) -> Callable[[], None]:
        """Send nothing of a process until the returned function is called (once)."""
        follower = self._followers.get(process_id)
        if follower is None:
            return _nothing
        follower.hold()
        return follower.release

    def cursor(self, process_id: str) -> Cursor:
        """Return what of a process was delivered here."""
        follower = self._followers.get(process_id)
        return BEGINNING if follower is None else follower.subscription.cursor

    def announce(self, process_id: str, encode: Callable[[Cursor], bytes]) -> None:
        """Send a notification about a process to this client if it follows it and reads; it is news, not history."""
        follower = self._followers.get(process_id)
        if follower is not None and not follower.subscription.is_completed and self._outbox.is_ready:
            self._outbox.write(text_frame(encode(follower.subscription.cursor)))

    def undelivered(self) -> dict[str, OutputFormat]:
        """Return the processes whose `process.completed` was not handed to the transport, and their formats."""
        return {
            process_id: form
            for process_id, form in self._formats.items()
            if not self._followers[process_id].subscription.is_completed
        }

    def lag_bytes(self) -> int:
        """Return the output that was not handed to the transport yet, of the process that is behind most."""
        return max((follower.subscription.lag_bytes for follower in self._followers.values()), default=0)

    def close(self) -> None:
        """End all subscriptions silently."""
        for follower in self._followers.values():
            follower.close()


def _nothing() -> None:
    """Release what was not held."""
