"""The servers that this machine has joined as a node: `JoinedGateways` joins, leaves and keeps them
connected; one of them is `gateway`'s.

What is kept of them is a file each below `gateways/`, for its owner only. The folder is there while a server
has been joined: by it the keeper knows that a server is wanted (`kernel.server_marks`). Reading and writing
them blocks: run it in a thread.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from starlette.websockets import WebSocket

from outlive.config.options import JSONRPC_PATH, JSONRPC_PORT, is_private, websocket_url
from outlive.core.documents import decode_json
from outlive.core.errors import InvalidRequest, LimitExceeded
from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.extensions.fleet.joined.messages import NODE_PATH
from outlive.extensions.fleet.operations import GatewayView, NodeJoin, NodeLeave
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


_PORTS = {"ws": 80, "wss": 443}  # where an address has none (RFC 6455, section 3)
_HASH_DIGITS = 12  # of a path: nothing is to be guessed, and a person may have to read it
_TLS_HINT = "Take wss:// (and --ca FILE for an authority of your own), or a tunnel that ends on this machine."


class JoinedGateways:
    """All of them. `async with` keeps them connected; on one event loop."""

    def __init__(self, layout: Layout, door: SessionDoor, *, max_message_bytes: int) -> None:
        self._files = GatewayFiles(layout)
        self._door = door
        self._max_message_bytes = max_message_bytes
        self._instance = secrets.token_hex(16)
        self._kept: dict[str, tuple[KeptGateway, asyncio.Task[None]]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._stack = contextlib.AsyncExitStack()
        self._changing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Dial those that were joined earlier."""
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        for entry in await asyncio.to_thread(self._files.read):
            self._begin(entry, None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End their connections; what they have started here goes on."""
        self._tasks = None
        for _, task in self._kept.values():
            task.cancel()
        await self._stack.aclose()

    def views(self) -> list[GatewayView]:
        """Return them by name."""
        return [kept.view() for _, (kept, _) in sorted(self._kept.items())]

    async def join(self, asked: NodeJoin) -> None:
        """Join one; where it was joined before, the new invitation counts.

        Raises:
            InvalidRequest: Its address is none, or leads over a network without TLS.
            AccessDenied: It does not take the code, or its certificate does not count.
            BackendUnavailable: It does not answer.
            LimitExceeded: `disk_full`.
        """
        from outlive.extensions.fleet.joined.dialled import dial  # noqa: PLC0415 - with the library, 40 ms
        from outlive.extensions.fleet.joined.gateway import let_in  # noqa: PLC0415 - likewise

        url = node_url(asked.url)
        if asked.ca and not await asyncio.to_thread(os.path.isfile, asked.ca):
            raise InvalidRequest("invalid_params", f"ca: there is no file {asked.ca!r}.")
        async with self._changing:
            name = self._name_of(url)
            spare = await dial(
                url,
                asked.code,
                ca=asked.ca,
                instance=self._instance,
                max_message_bytes=self._max_message_bytes,
            )
            entry = GatewayEntry(name=name, url=url, node="", credential="", ca=asked.ca, labels=asked.labels)
            try:
                entry = await let_in(spare, entry, self._files)
            except OSError as error:
                spare.close()
                raise LimitExceeded(
                    "disk_full", f"The credential cannot be kept: {error.strerror}."
                ) from error
            except BaseException:
                spare.close()
                raise
            if self._tasks is None:  # the server is being stopped; it is kept, and the next one dials
                spare.close()
                return
            await self._end(name)
            self._begin(entry, spare)

    async def leave(self, asked: NodeLeave) -> None:
        """Run no more commands for one; what it has started goes on.

        Raises:
            InvalidRequest: There is none of that name or address.
        """
        async with self._changing:
            name = self._named(asked.gateway)
            if name is None:
                hint = f"There are: {', '.join(sorted(self._kept)) or 'none'}."
                text = f"gateway: this machine is no node of {asked.gateway!r}."
                raise InvalidRequest("invalid_params", text, hint=hint)
            await self._end(name)
            await asyncio.to_thread(self._files.remove, name)

    def _name_of(self, url: str) -> str:
        """Return what a gateway is called here; one that was joined earlier keeps its name."""
        place = _place_of(url)
        known = next(
            (one for one, (kept, _) in self._kept.items() if _place_of(kept.entry.url) == place), None
        )
        if known is not None:
            return known
        return gateway_name(url)

    def _named(self, word: str) -> str | None:
        """Return the name of the gateway that a caller means by its name, its address, or its host where one
        alone has that.
        """
        if word in self._kept:
            return word
        places = {one: _place_of(kept.entry.url) for one, (kept, _) in self._kept.items()}
        with contextlib.suppress(InvalidRequest):
            place = _place_of(node_url(word))
            if (found := next((one for one in places if places[one] == place), None)) is not None:
                return found
        of_host = [one for one, place in places.items() if place[0] == word.lower()]
        return of_host[0] if len(of_host) == 1 else None

    def _begin(self, entry: GatewayEntry, spare: Any) -> None:  # noqa: ANN401 - `dialled.Spare`, whose module costs 40 ms
        from outlive.extensions.fleet.joined.gateway import Gateway  # noqa: PLC0415 - likewise

        if self._tasks is None:
            raise AssertionError("they are used while they are open")
        gateway = Gateway(
            entry,
            self._files,
            door=self._door,
            instance=self._instance,
            max_message_bytes=self._max_message_bytes,
            spare=spare,
        )
        self._kept[entry.name] = gateway, self._tasks.create_task(gateway.run(), name=f"gateway {entry.name}")

    async def _end(self, name: str) -> None:
        found = self._kept.pop(name, None)
        if found is not None:
            found[1].cancel()
            await asyncio.wait({found[1]})


def node_url(text: str) -> str:
    """Return where a gateway takes nodes, from an address of its JSON-RPC port.

    Raises:
        InvalidRequest: It is no address, or leads over a network without TLS: the credential and all commands
        would be read there.
    """
    try:
        url = websocket_url(text)
    except ValueError as error:
        raise InvalidRequest("invalid_params", f"url: {error}.") from error
    parts = urlsplit(url)
    if not is_private(url):
        raise InvalidRequest(
            "invalid_params", f"url: {text!r} leads over a network without TLS.", hint=_TLS_HINT
        )
    path = parts.path.removesuffix("/").removesuffix(JSONRPC_PATH).removesuffix(NODE_PATH)
    return f"{parts.scheme}://{parts.netloc}{path}{NODE_PATH}"


def gateway_name(url: str) -> str:
    """Return what the gateway at an address of `node_url` is called: its host, and what else is not the
    usual.

    What a gateway starts here belongs to its name, so that no other address may ever get the same one: behind
    tunnels all gateways have one host, and one after the other would be the owner of what all of them have
    started.
    """
    host, port, path = _place_of(url)
    if path != NODE_PATH:
        return f"{host}:{port}-{hashlib.sha256(path.encode()).hexdigest()[:_HASH_DIGITS]}"
    return host if port == JSONRPC_PORT else f"{host}:{port}"


def _place_of(url: str) -> tuple[str, int, str]:
    """Return the host, the port and the path of an address of `node_url`."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host, parts.port or _PORTS[parts.scheme], parts.path
