"""The parts of uvicorn that this server builds on, without uvicorn's command line.

`import uvicorn` imports uvicorn.main, which builds a command line with click: a fifth of the server's whole
start (55 of 265 ms of processor time, measured). So an empty module takes the place of uvicorn.main while the
parts are imported, and is removed afterwards: a later import of uvicorn.main gets the real one. Every other
module imports uvicorn from here, so that this one runs first.
"""

import sys
from types import ModuleType

__all__ = [
    "STATUS_LINE",
    "ClientDisconnected",
    "Config",
    "HttpToolsProtocol",
    "ServerState",
    "WebSocketsSansIOProtocol",
]

_COMMAND_LINE = "uvicorn.main"
_empty_main = ModuleType(_COMMAND_LINE)
if "uvicorn" not in sys.modules:
    # The three names that uvicorn's package imports from its main module.
    vars(_empty_main).update(Server=None, main=None, run=None)
    sys.modules[_COMMAND_LINE] = _empty_main

from uvicorn.config import Config  # noqa: E402 -- after the replacement
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol  # noqa: E402
from uvicorn.protocols.utils import ClientDisconnected  # noqa: E402
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol  # noqa: E402
from uvicorn.server import ServerState  # noqa: E402

if sys.modules.get(_COMMAND_LINE) is _empty_main:
    del sys.modules[_COMMAND_LINE]
