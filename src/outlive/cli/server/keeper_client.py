"""A small blocking client of the keeper for the command line: one question, one answer, a deadline."""

import os
import select
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Self, cast

from outlive.core.errors import BackendUnavailable, error_from_slug
from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from outlive.kernel.sockets import connect_unix, receive, send
from outlive.protocols.keeper import decode_message, encode_message

_CONNECT_PATIENCE_S = 3.0  # a supervisor that has just died is back within 0.2 s
_RETURN_PATIENCE_S = 25.0  # as long as a server waits for the keeper when it starts a command
_RETRY_S = 0.01
_SILENT_S = 1.0  # a supervisor that says nothing for so long may hang, or have been stopped by a command
_CANNOT_CONNECT = (FileNotFoundError, ConnectionRefusedError, BlockingIOError)


class KeeperClient:
    """One connection to the supervisor of a state folder, introduced as "cli"."""

    def __init__(self, layout: Layout, *, greets: bool = True, is_served: bool = False) -> None:
        """Connect and introduce ourselves.

        Not where `greets` is false: what outlive started is not greeted back. With `is_served` a server is
        there, which starts a keeper that is gone.

        Raises:
            BackendUnavailable: `keeper_unavailable`: no keeper runs, or it does not answer.
        """
        self._req = 0
        self._layout = layout
        self._socket = _connect(layout, is_served=is_served)
        if not greets:
            return
        try:
            self.ask({"op": "hello", "role": "cli", "pid": os.getpid()})
        except BaseException:
            self.close()
            raise

    def ask(
        self, message: Mapping[str, object], *, timeout_s: float = 10.0, fds: Sequence[int] = ()
    ) -> dict[str, object]:
        """Send a request, with descriptors if any, and return its reply.

        Raises:
            OutliveError: What the keeper answered, as the error of its family.
            BackendUnavailable: `timeout`, or `keeper_restarted` when it went away before the answer.
        """
        self._req += 1
        deadline = time.monotonic() + timeout_s
        try:
            while not send(self._socket, encode_message({**message, "req": self._req}), fds):
                self._wait(select.POLLOUT, deadline)
            while True:
                self._wait(select.POLLIN, deadline)
                received = receive(self._socket)
                if received is None:
                    continue
                if not received[0]:
                    raise _gone()
                reply = self._reply(received[0])
                if reply is not None:
                    return reply
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _gone() from error

    def _reply(self, packet: bytes) -> dict[str, object] | None:
        if packet[:1] != b"J":  # doorbells are not meant for us
            return None
        reply, _ = decode_message(packet)
        if reply.get("req") != self._req:
            return None
        if reply.get("ok"):
            return reply
        details = reply.get("details")
        raise error_from_slug(
            str(reply.get("error")),
            str(reply.get("message") or reply.get("error")),
            details=cast("Mapping[str, object]", details) if isinstance(details, dict) else None,
        )

    def _wait(self, events: int, deadline: float) -> None:
        poll = select.poll()  # not select(): that breaks above descriptor 1023
        poll.register(self._socket, events)
        while not poll.poll(max(0.0, min(_SILENT_S, deadline - time.monotonic())) * 1000):
            if time.monotonic() < deadline:
                self._rouse()
                continue
            raise BackendUnavailable("timeout", "The keeper did not answer in time.")

    def _rouse(self) -> None:
        from outlive.kernel.lock_proof import rouse_keeper  # noqa: PLC0415 - hardly ever needed

        rouse_keeper(self._layout)

    def fileno(self) -> int:
        """Return the connection's descriptor; it becomes readable when the keeper goes away."""
        return self._socket.fileno()

    def has_gone(self) -> bool:
        """Tell whether the keeper has closed the connection; what it may have said unasked is dropped."""
        try:
            received = receive(self._socket)
        except (BrokenPipeError, ConnectionResetError):
            return True
        return received is not None and not received[0]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        """Hold the connection."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Close the connection."""
        self.close()


def _gone() -> BackendUnavailable:
    return BackendUnavailable(
        "keeper_restarted", "The keeper went away before it answered.", hint="Try again."
    )


def _connect(layout: Layout, *, is_served: bool) -> socket.socket:
    """Connect; wait for a supervisor that a guardian that lives, or a server, is about to start."""
    deadline = time.monotonic() + (_RETURN_PATIENCE_S if is_served else _CONNECT_PATIENCE_S)
    while True:
        try:
            return connect_unix(layout.keeper_socket)
        except _CANNOT_CONNECT as error:
            if not (is_served or _lives(layout)) or time.monotonic() > deadline:
                raise BackendUnavailable(
                    "keeper_unavailable",
                    f"No keeper answers for {layout.root}.",
                    hint="`outlive serve` starts it; it ends by itself when there is nothing to keep.",
                ) from error
        except OSError as error:
            raise BackendUnavailable(
                "keeper_unavailable", f"The keeper's socket cannot be reached ({error.strerror})."
            ) from error
        time.sleep(_RETRY_S)


def _lives(layout: Layout) -> bool:
    return any(holder_of(lock) is not None for lock in (layout.guardian_lock, layout.supervisor_lock))
