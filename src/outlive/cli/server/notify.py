"""Telling systemd how far we are (sd_notify(3)): one datagram to the socket that a unit of Type=notify gets."""

import contextlib
import socket
from collections.abc import MutableMapping

_VARIABLE = "NOTIFY_SOCKET"
_PATIENCE_S = 2.0  # systemd empties the socket at once; a hung one must not keep us from serving


class Notifier:
    """Says things to whoever started us as a unit; says nothing where nobody did."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        """Take the socket's address out of the environment: what we start is not the unit's main process."""
        self._address = environ.pop(_VARIABLE, "")

    def tell(self, *assignments: str) -> bool:
        """Send lines such as "READY=1"; return whether anybody was told. Trouble is no reason not to serve."""
        if self._address[:1] not in {"/", "@"}:
            return False
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection,
        ):
            connection.settimeout(_PATIENCE_S)
            connection.connect(address)
            connection.send("\n".join(assignments).encode())
            return True
        return False
