"""The servers that this machine has joined as a node: `JoinedGateways` joins, leaves and keeps them
connected; one of them is `gateway`'s.
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from outlive.config.options import JSONRPC_PATH, JSONRPC_PORT, is_private, websocket_url
from outlive.core.errors import InvalidRequest, LimitExceeded
from outlive.core.layout import Layout
from outlive.extensions.fleet.gateway_files import GatewayEntry, GatewayFiles, KeptGateway, SessionDoor
from outlive.extensions.fleet.joined.messages import NODE_PATH
from outlive.extensions.fleet.operations import GatewayView, NodeJoin, NodeLeave

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
