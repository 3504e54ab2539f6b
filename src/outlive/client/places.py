"""What a client may ask about the places where commands run: one part of `AsyncClient`."""

from typing import Any

from outlive.client.link import Link

_Nodes = list[dict[str, Any]]


class Backends:
    """Questions to the server about its backends."""

    _link: Link

    async def default_backend(self) -> str:
        """Return where commands run that name no backend: "local", "docker", or the name of a node.

        Raises:
            BackendUnavailable: `server_unavailable`.
        """
        return (await self._link.channel()).hello.backend

    async def degraded(self) -> str | None:
        """Return why the server could start nothing when this connection was made; None: it could.

        "disk_full", "read_only" or "folder_gone", of its state folder.

        Raises:
            BackendUnavailable: `server_unavailable`.
        """
        return (await self._link.channel()).hello.degraded

    async def nodes(self) -> _Nodes:
        """Return the other servers that run commands for this one, as mappings.

        Of each its `name`, `address`, `state` ("connected" or "away"), `since` (ISO 8601), `reason` and `hint` where it is away,
        and how many `processes` are followed there.
        """
        return [*(await self._link.request("nodes", {}))["nodes"]]
