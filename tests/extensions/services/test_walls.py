"""Whose services are whose, what a caller inside may do, and how many there may be."""

import asyncio
import os
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import CommandRefused, LimitExceeded
from outlive.core.process import Owner
from outlive.extensions.services.operations import (
    DownRequest,
    RestartRequest,
    ServicesRequest,
)
from tests.extensions.services.steps import (
    ME,
    Site,
    all_are,
    asked_for,
    bring_down,
    brought_up,
    processes_of,
    seen,
)


@pytest.mark.promise("V.inside")
async def test_a_caller_inside_has_the_server_ask_nothing_and_ends_nothing_weaker(
    site: Site, tmp_path: Path
) -> None:
    async with brought_up(site, asked_for(tmp_path, web={"command": "sleep 60"})):
        await seen(site, tmp_path, all_are("ready"))
        bound = await site.engine.starts.start(
            Command(line="sleep 60", profile="guarded", detached=True), owner=ME
        )
        inside = Owner(principal="uid:me", inside=bound.process_id)
        asked = asked_for(tmp_path, web={"command": "true", "ready": {"http": "http://localhost:1/"}})
        with pytest.raises(CommandRefused):
            await site.services.up(asked, inside)
        with pytest.raises(CommandRefused):
            await site.services.down(DownRequest(folder=str(tmp_path)), inside)
        assert (await seen(site, tmp_path, lambda _: True))["web"].state == "ready"
        await site.engine.controls.cancel(bound, grace_s=0)


@pytest.mark.promise("V.inside")
async def test_what_a_caller_inside_starts_again_is_bounded_as_the_caller_is(
    site: Site, tmp_path: Path
) -> None:
    """A service that rests can be started by a command that is bounded: not with fewer bounds than that."""
    await site.services.up(asked_for(tmp_path, web={"command": "sleep 60"}), ME)
    await seen(site, tmp_path, all_are("ready"))
    await site.services.down(DownRequest(folder=str(tmp_path), grace=0), ME)
    await seen(site, tmp_path, all_are("stopped"))
    bound = await site.engine.starts.start(
        Command(line="sleep 60", profile="guarded", detached=True), owner=ME
    )
    inside = Owner(principal="uid:me", inside=bound.process_id)
    await site.services.restart(RestartRequest(folder=str(tmp_path), names=("web",)), inside)
    await seen(site, tmp_path, all_are("ready"))
    newest = max(await processes_of(site, "web", tmp_path))
    assert (await site.queries.find(newest)).record.sandbox.profile == "guarded"
    await site.engine.controls.cancel(bound, grace_s=0)
    await bring_down(site, tmp_path)


@pytest.mark.thorough
async def test_a_principal_has_services_in_so_many_projects(site: Site, tmp_path: Path) -> None:
    owner = Owner(principal="crowd")

    async def up(number: int) -> None:
        folder = tmp_path / str(number)
        folder.mkdir()
        request = asked_for(
            folder, web={"command": "true", "restart": "always", "backoff": {"first": 3000, "most": 3000}}
        )
        await site.services.up(request, owner)

    for number in range(64):
        await up(number)
    with pytest.raises(LimitExceeded):
        await up(64)
    for number in range(64):
        await site.services.down(DownRequest(folder=str(tmp_path / str(number)), grace=0), owner)
    for number in range(64):
        await seen(site, tmp_path / str(number), all_are("stopped"), owner)
    await up(65)
    await site.services.down(DownRequest(folder=str(tmp_path / "65"), grace=0), owner)


@pytest.mark.promise("V.inside")
@pytest.mark.parametrize("place", ["elsewhere", "a link", "a pipe"])
async def test_for_another_caller_the_server_reads_no_file_that_the_service_could_not(
    site: Site, tmp_path: Path, place: str
) -> None:
    """A confined command must not get the variables of any file by way of the server."""
    folder, elsewhere, named = tmp_path / "p", tmp_path / "secret.env", tmp_path / "p" / ".env"
    folder.mkdir()
    elsewhere.write_text("TOKEN=of-another\n")
    if place == "a link":
        named.symlink_to(elsewhere)
    elif place == "a pipe":
        os.mkfifo(named)
    path = elsewhere if place == "elsewhere" else named
    token = Owner(principal="token:ci")
    request = asked_for(folder, web={"command": "echo $TOKEN", "env_file": [str(path)]})
    await site.services.up(request, token)
    found = await seen(site, folder, all_are("failed"), token)
    assert (found["web"].error or "").startswith(f"env_file {path}: it ")
    assert await processes_of(site, "web", folder) == []


async def test_a_caller_that_goes_away_takes_nothing_back(site: Site, tmp_path: Path) -> None:
    asked = asyncio.ensure_future(site.services.up(asked_for(tmp_path, web={"command": "sleep 60"}), ME))
    async with asyncio.timeout(15):
        while not (await site.services.list(ServicesRequest(folder=str(tmp_path)), ME)).stacks:  # noqa: ASYNC110 -- until it is known
            await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await seen(site, tmp_path, all_are("ready"))
    await bring_down(site, tmp_path)
