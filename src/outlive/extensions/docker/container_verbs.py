"""`outlive containers ls` and `rm`: they ask the Docker daemon and read the state folder, whether a server
runs or not.
"""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime

from outlive.cli.output import plain, say, show, show_error, show_json
from outlive.cli.parameters import JSON, STATE_DIR, places, switch, takes
from outlive.cli.tables import age, shown_table
from outlive.core.errors import InvalidRequest, InvalidState, OutliveError
from outlive.core.identity import short_name
from outlive.core.layout import Layout
from outlive.core.values import asdict, dataclass
from outlive.discovery.state_folder import layout_of
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import DockerApi, DockerSettings, docker_host
from outlive.extensions.docker.recipe import Labels, is_set_aside
from outlive.protocols.keeper import decode_spec

_FAILED = 1
_SHOWN = 4  # processes of one container that a line names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Container:
    """One container; `state` is the daemon's word for it, "aside" for one that gets no more commands."""

    name: str
    id: str
    image: str
    state: str
    created_at: datetime
    process_ids: tuple[str, ...]


@takes(STATE_DIR, JSON)
def ls(*, state_dir: str | None, as_json: bool) -> int:
    """Show the containers of a state folder, the oldest first."""
    found = asyncio.run(_find(layout_of(state_dir)))
    if as_json:
        show_json({"containers": [asdict(one) | {"created_at": one.created_at.isoformat()} for one in found]})
    elif not found:
        say("There are no containers of this state folder.")
    else:
        now = datetime.now(UTC)
        rows = [("NAME", "IMAGE", "AGE", "STATE", "PROCESSES")]
        rows += [
            (one.name, plain(one.image, 40), age(one.created_at, now), one.state, _shown(one.process_ids))
            for one in found
        ]
        show(*shown_table(rows))
    return 0


@takes(
    places("names", "NAME...", about="Names, or their beginnings, as `outlive containers ls` shows them."),
    switch("--force", about="Also where processes live in it: they are killed."),
    STATE_DIR,
    JSON,
)
def rm(*, names: list[str], force: bool, state_dir: str | None, as_json: bool) -> int:
    """Remove the containers that `names` mean; return 1 when one of them was not removed, and say why."""
    return asyncio.run(_remove_all(layout_of(state_dir), names, force=force, as_json=as_json))


async def _remove_all(layout: Layout, names: Sequence[str], *, force: bool, as_json: bool) -> int:
    code = 0
    removed: list[str] = []
    for name in names:
        try:
            found = _meant(name, await _find(layout))
            if not force and (living := [one for other in found for one in other.process_ids]):
                raise InvalidState(
                    "process_running",
                    f"In the container {found[0].name} live {len(living)} processes: {_shown(living)}.",
                    hint="End them first, or kill them with it: --force.",
                )
            await _remove(layout, found)
        except OutliveError as error:
            show_error(error)
            code = _FAILED
        else:
            removed.append(found[0].name)
            if not as_json:
                say(f"{found[0].name} is removed")
    if as_json:
        show_json({"removed": removed})
    return code


async def _remove(layout: Layout, found: Sequence[_Container]) -> None:
    async with DockerApi(_settings()) as api:
        for one in found:
            await api.remove(one.id)
    await asyncio.to_thread(folders.remove_folder, layout, found[0].name)


def _meant(name: str, found: Sequence[_Container]) -> list[_Container]:
    """Return the containers of one name: the one in use, and those set aside.

    Raises:
        InvalidRequest: There is none, or several names begin so.
    """
    meant = {one.name for one in found if one.name == name} or {
        one.name for one in found if name and one.name.startswith(name)
    }
    if len(meant) != 1:
        text = f"No container of this state folder is named {name[:60]!r}."
        if meant:
            text = f"{len(meant)} containers' names begin with {name[:60]!r}."
        raise InvalidRequest("invalid_params", text, hint="`outlive containers ls` shows them.")
    return [one for one in found if one.name in meant]


async def _find(layout: Layout) -> list[_Container]:
    """Return the containers of a state folder, the oldest first.

    Raises:
        StartFailed, BackendUnavailable: The Docker daemon cannot be asked.
    """
    label = await asyncio.to_thread(folders.label_of, layout)
    processes = await asyncio.to_thread(_living, layout)
    async with DockerApi(_settings()) as api:
        found = await api.find({Labels.STATE: label})
    made = [
        _Container(
            name=str(one["Labels"].get(Labels.CONTAINER, "")),
            id=str(one["Id"]),
            image=str(one["Image"]),
            state="aside" if is_set_aside(one) else str(one["State"]),
            created_at=datetime.fromtimestamp(int(one["Created"]), UTC),
            process_ids=tuple(processes.get(str(one["Labels"].get(Labels.CONTAINER, "")), ())),
        )
        for one in found
    ]
    return sorted(made, key=lambda one: (one.created_at, one.id))


def _living(layout: Layout) -> dict[str, list[str]]:
    """Return the ids of the processes that have not ended, by their containers' names.

    The keeper notes each end in `done`.
    """
    found: dict[str, list[str]] = {}
    try:
        ids = sorted(os.listdir(os.path.dirname(layout.process("x"))))
    except FileNotFoundError:
        return found
    for process_id in ids:
        folder = layout.process(process_id)
        try:
            if os.stat(f"{folder}/done").st_size > 0:  # it is there from the beginning, and empty
                continue
            with open(f"{folder}/spec", "rb") as file:
                container = decode_spec(file.read(), with_command=False).container
        except (OSError, ValueError):  # it is being removed
            continue
        if container:
            found.setdefault(container, []).append(process_id)
    return found


def _shown(process_ids: Sequence[str]) -> str:
    more = f" and {len(process_ids) - _SHOWN} more" if len(process_ids) > _SHOWN else ""
    return (" ".join(short_name(one) for one in process_ids[:_SHOWN]) or "-") + more


def _settings() -> DockerSettings:
    return DockerSettings(host=docker_host(os.environ))
