"""Asking a supervisor who is there, on a connection of its own: `ask_status`. For programs that have no link to it."""

import contextlib
import select

from outlive.core.layout import Layout
from outlive.keeper.common import sockets
from outlive.protocols.keeper import decode_message, encode_message


def ask_status(layout: Layout, *, within_s: float, with_commands: bool = False) -> dict[str, object] | None:
    """Return what `Presence.status` tells, None where no answer comes in time, or a refusal. Blocks.

    Args:
        layout: The state folder of the supervisor.
        within_s: How long to wait for the answer.
        with_commands: Ask for `commands`, too, which a supervisor of before does not tell.

    Raises:
        OSError: No supervisor listens, or its backlog is full.
    """
    with sockets.connect_unix(layout.keeper_socket) as link:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        with contextlib.suppress(OSError, ValueError):  # it ends just now
            sockets.send(link, encode_message({"op": "status", "req": 1, "commands": with_commands}))
            if poll.poll(within_s * 1000) and (packet := sockets.receive(link)) is not None and packet[0]:
                reply, _ = decode_message(packet[0])
                return reply if reply.get("ok") else None
    return None
