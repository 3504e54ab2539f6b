"""Services' share of a server."""

from typing import Self

from outlive.extensions.server_part import Built, ServerPart
from outlive.extensions.services.services import Services
from outlive.server.operations import Carrier


class ServicesPart(ServerPart):
    """Keeps projects' services running while the server runs."""

    def join(self, built: Built) -> None:
        """Take the engine."""
        self._services = Services(self.given.layout, built.engine)

    def carriers(self) -> dict[str, Carrier]:
        """Return what is asked of services."""
        services = self._services
        return {
            "services_up": services.up,
            "services_down": services.down,
            "services_restart": services.restart,
            "services_list": services.list,
        }

    async def __aenter__(self) -> Self:
        """Go on with what an earlier server has kept, once it is known what lives."""
        await self._services.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Do nothing any more; processes go on."""
        await self._services.__aexit__(*exception)
