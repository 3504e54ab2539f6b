"""`outlive ui`: the page of this machine's processes, opened in a browser.

The server writes a file that opens the page once, for a minute; this starts a browser with that file's path.
Which callers the server does that for is decided there (`frontends.web.door`).
"""

import http.client
import json
import os
import webbrowser
from contextlib import closing
from socket import socket
from typing import Any
from urllib.parse import quote

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import SERVER, ServerFlags, option, switch, takes
from outlive.core.documents import decode_json
from outlive.core.errors import BackendUnavailable, error_from_slug
from outlive.discovery.server import Server
from outlive.discovery.state_folder import layout_of, open_state_folder

_PATH = "/ui/codes"
_ANSWER_S = 20.0  # a code is made in milliseconds; a busy machine may take seconds to tell which program asks
# What tells that programs here have a screen. Without one a text browser would take the terminal, and show
# nothing.
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


@takes(
    switch("--print", to="is_printed", about="Print the file's path, and open nothing."),
    option(
        "--scope",
        metavar="read|run|admin",
        about="How much the page may do: read only looks.",
        default="admin",
    ),
    *SERVER,
    more="The page is opened with a file that counts once, for a minute, and only for you. From another "
    "machine open the server's address and type a token (`outlive token create --as-user`).",
)
def ui(*, is_printed: bool, scope: str, server: ServerFlags) -> int:
    """Have the server make a file that opens the page, and open it."""
    made = _asked(server, scope)
    if server.as_json:
        show_json(made)
    elif is_printed:
        show(made["file"])
    elif _opens(made["file"]):
        say(f"outlive: a browser opens {made['address']} with the scope {made['scope']}.")
    else:
        say(f"outlive: no browser was found here. Open this file in one within {made['expires_s']:.0f} s:")
        show(made["file"])
    return 0


def _asked(server: ServerFlags, scope: str) -> dict[str, Any]:
    """Return what the server answers: the members of `POST /ui/codes`.

    Raises:
        OutliveError: It refuses, or there is no server.
    """
    finder = Server(open_state_folder(layout_of(server.state_dir).root), say=say)
    opened = finder.dial() if server.no_start else finder.connect()
    if opened is None:
        raise BackendUnavailable("server_unavailable", f"No server runs for {finder.root}.")
    with closing(_OpenedConnection(opened)) as connection:
        body = json.dumps({"scope": scope})
        try:
            connection.request("POST", _PATH, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            answer: dict[str, Any] = decode_json(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise BackendUnavailable("server_unavailable", f"The server gave no answer ({error}).") from error
    if reply.status != 201:
        raise error_from_slug(str(answer["error"]), str(answer["message"]), hint=str(answer["hint"]))
    return answer


class _OpenedConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket that is connected already."""

    def __init__(self, opened: socket) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        opened.settimeout(_ANSWER_S)
        self.sock = opened


def _opens(path: str) -> bool:
    """Open a file in the desktop's browser ($BROWSER, else what xdg-open names).

    Return whether there is one.
    """
    if not any(os.environ.get(name) for name in _SCREENS):
        return False
    return webbrowser.open(f"file://{quote(path)}")
