"""The parts of uvicorn that we build on, without its command line.

`import uvicorn` imports uvicorn.main, which builds a command line with click: a fifth of our whole start (55 of
265 ms of processor time, measured). An empty module stands in its place while the parts are imported; whoever
wants uvicorn.main later gets the real one. Everything of uvicorn is imported from here, first of all.
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
_stand_in = ModuleType(_COMMAND_LINE)
if "uvicorn" not in sys.modules:
    vars(_stand_in).update(Server=None, main=None, run=None)
    sys.modules[_COMMAND_LINE] = _stand_in

from uvicorn.config import Config  # noqa: E402 -- behind the stand-in
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol  # noqa: E402
from uvicorn.protocols.utils import ClientDisconnected  # noqa: E402
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol  # noqa: E402
from uvicorn.server import ServerState  # noqa: E402

if sys.modules.get(_COMMAND_LINE) is _stand_in:
    del sys.modules[_COMMAND_LINE]
