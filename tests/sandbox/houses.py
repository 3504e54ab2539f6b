"""Keepers of both users for tests that look from inside of each profile, and the steps that make it."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.command import Command, Profile
from outlive.engine.commands.resolver import Resolved
from outlive.engine.commands.sandbox import Sandboxes
from outlive.keeper.sandbox.capabilities import Capabilities, read_offers
from tests.keeper.house import House
from tests.sandbox.ordinary import CAN_BECOME, NOBODY, SYSTEM_PYTHON, OrdinaryHouse, open_folder

USERS = ("ours", "ordinary")
INSIDE_PYTHON = SYSTEM_PYTHON if os.path.exists(SYSTEM_PYTHON) else os.path.realpath(sys.executable)


@contextmanager
def a_house(user: str) -> Iterator[House]:
    """Yield a keeper of ours or of an ordinary user.

    Its paths are short, so that /proc/net/unix shows them whole.
    """
    if user == "ours":
        with open_folder() as folder, House(folder / "state") as kept:
            yield kept
        return
    if not CAN_BECOME:
        pytest.skip("becoming another user takes root, setpriv and a Python that he may run")
    with open_folder() as folder, OrdinaryHouse(folder) as kept:
        yield kept


@contextmanager
def a_workspace(house: House, *scripts: str) -> Iterator[Path]:
    """Yield the folder of a house's commands, with programs of ours in it."""
    with open_folder() as folder:
        for script in scripts:
            shutil.copy(Path(__file__).with_name(script), folder)
        if isinstance(house, OrdinaryHouse):
            os.chown(folder, NOBODY, NOBODY)
        yield folder


def offers_of(house: House) -> Capabilities:
    """Return what the machine offers to the keeper's user."""
    return read_offers(str(house.client.ask("offers")["found"]))


def steps_of(house: House, offers: Capabilities, workspace: Path, profile: Profile) -> tuple[str, ...] | None:
    """Return the steps that make a profile for a command in a folder."""
    if offers.obstacles[profile]:
        pytest.skip(f"{profile.value} cannot be had here: {offers.obstacles[profile]}")
    readable = () if INSIDE_PYTHON == SYSTEM_PYTHON else (sys.prefix, sys.base_prefix)
    sandboxes = Sandboxes(
        Settings(sandbox_read=readable),
        state_dir=str(house.state_dir),
        environment={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"},
    )
    sandboxes.assume(offers)
    making = sandboxes.confine(
        Resolved(program="", argv=(), env={}, cwd=str(workspace), shell=None),
        Command(line="x"),
        profile,
        name="x",
        script=None,
    )
    return asyncio.run(making).steps
