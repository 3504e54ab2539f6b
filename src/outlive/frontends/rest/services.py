"""/v1/services: the services of a project: bring up, stop, restart, list (docs/services.md)."""

import asyncio

import msgspec

from outlive.frontends.rest.routes import Members, RestCall
from outlive.operations.services.requests import DownRequest, RestartRequest, ServicesRequest, UpRequest
from outlive.protocols.rest.requests import ServicesParameters


async def up(call: RestCall, body: UpRequest) -> Members:
    """Make what runs what is declared: start what is new, restart what has changed, stop what is gone."""
    return _members(await call.engine.services.up(body, call.owner()))


async def down(call: RestCall, body: DownRequest) -> Members:
    """Stop services, those that wait for others first."""
    return _members(await call.engine.services.down(body, call.owner()))


async def restart(call: RestCall, body: RestartRequest) -> Members:
    """End services and start them again."""
    return _members(await call.engine.services.restart(body, call.owner()))


async def list_services(call: RestCall, asked: ServicesParameters) -> Members:
    """List services; with `folder`, `revision` and `wait_s` once there is news of them."""
    wanted = ServicesRequest(folder=asked.folder, revision=asked.revision, wait_s=asked.wait_s)
    waiting = asyncio.ensure_future(call.engine.services.list(wanted, call.owner()))
    if await call.first_of(waiting):
        return _members(waiting.result())
    # The server stops: as they are now.
    return _members(await call.engine.services.list(ServicesRequest(folder=asked.folder), call.owner()))


def _members(answer: msgspec.Struct) -> Members:
    found: Members = msgspec.to_builtins(answer)
    return found


# What is done to services: the last word of the path, the operation and the handler.
VERBS = (
    ("up", "services_up", up),
    ("down", "services_down", down),
    ("restart", "services_restart", restart),
)
