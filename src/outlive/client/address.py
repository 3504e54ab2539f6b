"""Where the server is: `Address`, a state folder's Unix socket or a `ws://` address, and how a connection gets there."""

import os
from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from outlive.client.world import Unreachable, Wire, World
from outlive.core.layout import Layout
from outlive.presence.server import Server
from outlive.presence.state_folder import layout_of, open_state_folder

__all__ = ["Address", "say_nothing"]

_PATH = "/ws/mcp"


def say_nothing(_line: str) -> None:
    """Tell nobody."""


class Address:
    """One server, dialled again and again."""

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        starts_server: bool = True,
        say: Callable[[str], None] = say_nothing,
    ) -> None:
        """Name the server.

        Args:
            state_dir: Its state folder; None for the usual one (`OUTLIVE_STATE_DIR`, else in the home folder).
            url: Its `ws://…` address instead.
            token: Sent as `Authorization: Bearer …`.
            starts_server: Whether a server is started for the state folder where none runs.
            say: Told in one line that a server is started.

        Raises:
            ConfigInvalid: The state folder cannot be used.
        """
        if url is not None and state_dir is not None:
            raise ValueError("pass either state_dir or url")
        self._url = f"ws://localhost{_PATH}" if url is None else url
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._server: Server | None = None
        self.is_started_here = starts_server and url is None
        self._root = ""
        if url is None:
            layout = layout_of(None if state_dir is None else os.fspath(state_dir))
            if starts_server:
                layout = open_state_folder(layout.root)
            self._server = Server(Layout(os.path.abspath(layout.root)), say=say)
            self._root = layout.root

    def __str__(self) -> str:
        """Return what people are told when nobody answers."""
        return self._url if self._server is None else f"the state folder {self._root}"

    async def dial(self, world: World, query: Mapping[str, str]) -> Wire:
        """Return an open WebSocket; starts the server if that was asked for.

        Raises:
            Unreachable: Nobody listens now, or the listener went away.
            BackendUnavailable: The server that was started does not answer.
            ConfigInvalid: It ended at once.
            AccessDenied: This caller is not let in.
        """
        url = self._url
        if query:
            url += ("&" if "?" in url else "?") + urlencode(query)
        connection = None
        server = self._server
        if server is not None:
            connection = server.dial()
            if connection is None and self.is_started_here:
                connection = await world.reach(lambda gone: server.connect(is_abandoned=gone))
            if connection is None:
                raise Unreachable(f"Nobody serves {self}.")
        return await world.open(url, connection, self._headers)
