"""What is kept of servers that this machine has joined as a node: a file each below `gateways/`, for its
owner only.

The folder is there while a server has been joined: by it the keeper knows that a server is wanted
(`kernel.state_files`). Blocking: run it in a thread.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, Protocol

from starlette.websockets import WebSocket

from outlive.core.documents import decode_json
from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.extensions.fleet.operations import GatewayView
from outlive.kernel.files import read_all, write_whole
from outlive.policy.access import Access
from outlive.protocols.frames import decoded

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayEntry:
    """A server that was joined. `credential` is a secret; `node` is what this machine is called there.

    `labels` are told to it with each new credential.
    """

    name: str
    url: str
    node: str
    credential: str = field(repr=False)
    ca: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class GatewayFiles:
    """The joined servers of a state folder; one writer, the server."""

    def __init__(self, layout: Layout) -> None:
        self._folder = layout.gateways

    def read(self) -> list[GatewayEntry]:
        """Return all, by name; a damaged file counts as none, and is left alone."""
        with contextlib.suppress(FileNotFoundError):
            names = sorted(one for one in os.listdir(self._folder) if one.endswith(_SUFFIX))
            found = (self._read(name.removesuffix(_SUFFIX)) for name in names)
            return [entry for entry in found if entry is not None]
        return []

    def put(self, entry: GatewayEntry) -> None:
        """Keep an entry, whole: it is on disk when this returns.

        Raises:
            OSError: The disk refuses it; what was kept before is kept.
        """
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = f"{self._folder}/{entry.name}{_SUFFIX}"
        members = {
            "url": entry.url,
            "node": entry.node,
            "credential": entry.credential,
            "ca": entry.ca,
            "labels": dict(entry.labels),
        }
        # The server forgets the credential before this one once it knows that this one is kept.
        write_whole(path, json.dumps(members).encode(), survives="power cut")

    def remove(self, name: str) -> None:
        """Forget one; one that is not there is a success. The folder goes with the last."""
        for path in (f"{self._folder}/{name}{_SUFFIX}", f"{self._folder}/{name}{_SUFFIX}.new"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def _read(self, name: str) -> GatewayEntry | None:
        raw = read_all(f"{self._folder}/{name}{_SUFFIX}")
        return decoded(raw, lambda found: _entry(name, decode_json(found)))


def _entry(name: str, kept: dict[str, Any]) -> GatewayEntry:
    return GatewayEntry(
        name=name,
        url=str(kept["url"]),
        node=str(kept["node"]),
        credential=str(kept["credential"]),
        ca=str(kept["ca"]),
        labels={str(label): str(value) for label, value in kept["labels"].items()},
    )


class SessionDoor(Protocol):
    """Serves sessions (`frontends.jsonrpc.door.JsonRpcFrontend`)."""

    async def converse(self, websocket: WebSocket, access: Access) -> None:
        """Serve one over a WebSocket, until it ends."""


class KeptGateway(Protocol):
    """A server that was joined (`gateway.Gateway`)."""

    entry: GatewayEntry

    def view(self) -> GatewayView:
        """Return what is shown of it."""
