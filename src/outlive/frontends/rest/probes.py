"""What machines ask over GET: how the server is."""

from outlive.frontends.rest.door import ALIVE, READY, found_so_far
from outlive.frontends.rest.routes import Members, RestCall


async def healthz(_call: RestCall) -> Members:
    """Say that the server answers."""
    return ALIVE


async def readyz(call: RestCall) -> Members:
    """Say whether the keeper answers and the registry can be written."""
    await call.engine.health.check()
    return {**READY, **found_so_far(call.engine)}
