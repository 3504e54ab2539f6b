"""Where the server is: `Address`, a state folder's Unix socket or a `ws://` address, and how to open a connection to it.

Each call opens one connection; whether to try again after a failure is decided by `link`.
"""

import os
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from outlive.client.runtime import Runtime, Transport, Unreachable
from outlive.discovery.own_kind import own_token, token_headers
from outlive.discovery.server import Server
from outlive.discovery.state_folder import layout_of, open_state_folder

_PATH = "/ws/mcp"


def say_nothing(_line: str) -> None:
    """Discard the line."""


class Address:
    """One server, to which any number of connections are opened, one after another.

    Attributes:
        is_started_here: Whether a server is started when none runs.
        was_reached: Whether the server has ever answered; then the client waits for it to come back.
        starts: How many commands are being started now; while any is, a server that its operator has stopped is started, too.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        starts_server: bool = True,
        say: Callable[[str], None] = say_nothing,
    ) -> None:
        """Name the server.

        Args:
            state_dir: Its state folder; None for the usual one (`OUTLIVE_STATE_DIR`, else in the home folder).
            url: Its `ws://…` or `wss://…` address instead.
            token: Sent as `Authorization: Bearer …`; None takes the one in `OUTLIVE_TOKEN`, if any; "" sends none.
            ca_file: PEM file of the authorities that count for a `wss://` address; None takes the system's.
            starts_server: Whether a server is started for the state folder when none runs.
            say: Called with one line of text when a server is started.
        """
        if url is not None and state_dir is not None:
            raise ValueError("pass either state_dir or url")
        self._url = f"ws://localhost{_PATH}" if url is None else url
        self._headers = token_headers((own_token() if token is None else token) or None)
        self._ca_file = None if ca_file is None else os.fspath(ca_file)
        self._is_local = url is None
        self._state_dir = None if state_dir is None else os.fspath(state_dir)
        self._say = say
        self._server: Server | None = None
        self.was_reached = False
        self.starts = 0
        self.is_started_here = starts_server and self._is_local

    def __str__(self) -> str:
        """Return the address as error messages show it."""
        return self._url if self._server is None else f"the state folder {self._server.root}"

    async def dial(self, world: Runtime, query: Mapping[str, str]) -> Transport:
        """Return an open WebSocket; starts the server if that was asked for.

        Raises:
            Unreachable: No server listens now, or it went away.
            BackendUnavailable: The server that was started does not answer.
            ConfigInvalid: It ended at once, or the state folder cannot be used.
            AccessDenied: This caller is not let in.
        """
        url = self._url
        if query:
            url += ("&" if "?" in url else "?") + urlencode(query)
        connection = None
        if self._is_local:
            if self._server is None:
                self._server = await world.aside(self._find)
            server = self._server
            connection = server.dial()
            if connection is None and self.is_started_here:
                after_stop = self.starts > 0
                connection = await world.reach(
                    lambda gone: server.connect(is_abandoned=gone, after_stop=after_stop)
                )
            if connection is None:
                raise Unreachable(f"No server runs at {self}.")
        return await world.open(url, connection, self._headers, ca_file=self._ca_file)

    def _find(self) -> Server:
        layout = layout_of(self._state_dir)
        if self.is_started_here:
            layout = open_state_folder(layout.root, to_write=False)
        return Server(layout, say=self._say)
