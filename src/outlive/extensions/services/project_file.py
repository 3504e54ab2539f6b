"""The file in which a project declares its services, found from the current folder upwards, and read.

What is in it belongs to `services_file` and `procfile`.
"""

import os
from typing import NamedTuple

from outlive.cli.logs.log_view import LogView
from outlive.cli.parameters import ServerFlags
from outlive.client import Client, StackInfo
from outlive.core.documents import MAX_TOML_BYTES, decode_text
from outlive.core.errors import ConfigInvalid
from outlive.discovery.state_folder import layout_of
from outlive.extensions.services import services_file
from outlive.extensions.services.declaration import ServiceRequest
from outlive.extensions.services.services_file import parse_env_file
from outlive.files.documents import read_found, read_named
from outlive.kernel.project import project_root, working_folder

FILE_NAMES = (services_file.FILE_NAME, services_file.PROCFILE)


class DeclaredProject(NamedTuple):
    """A project's services: `folder` is the one in which the file lies, `project` where their processes have
    their names.
    """

    folder: str
    project: str
    services: dict[str, ServiceRequest]


def find_file(folder: str) -> str | None:
    """Return the nearest file between a folder and its project's root.

    In one folder the TOML file comes first.
    """
    folder = os.path.realpath(folder)
    root = project_root(folder)
    while True:
        for name in FILE_NAMES:
            if os.path.isfile(path := os.path.join(folder, name)):
                return path
        if folder in {root, "/"}:
            return None
        folder = os.path.dirname(folder)


def read_project(path: str | None) -> DeclaredProject:
    """Return the services of a file, or of a folder's; without one of the current folder's project.

    Raises:
        ConfigInvalid: There is no file, it cannot be read, or it declares what makes no sense.
    """
    if path is not None and not os.path.isdir(path):
        found: str | None = os.path.realpath(path)
    else:
        found = find_file(path or working_folder())
    if found is None:
        raise ConfigInvalid(
            "config_invalid",
            f"Here is no {FILE_NAMES[0]} and no {FILE_NAMES[1]}, nor above, up to the project's root.",
            hint=(
                'Write one: [services.web] and command = "./server" below it (docs/services.md), or '
                "pass -f FILE."
            ),
        )
    read = read_found if path is None else read_named
    try:
        text = decode_text(read(found, MAX_TOML_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is neither UTF-8 nor UTF-16"
        hint = "`outlive up -f FILE` takes another."
        raise ConfigInvalid("config_invalid", f"{found} cannot be read: {reason}.", hint=hint) from error
    folder, name = os.path.split(found)
    if name.endswith(".toml"):
        services = services_file.parse_services(text, folder=folder, file=name)
    else:
        services = services_file.parse_procfile(
            text, folder=folder, file=name, variables=_env_file(folder), port=os.environ.get("PORT", "")
        )
    return DeclaredProject(folder, project_root(folder), services)


def _env_file(folder: str) -> dict[str, str] | None:
    """Return what a file `.env` says; None where there is none. What is wrong in it, each start says."""
    path = os.path.join(folder, services_file.ENV_FILE)
    if not os.path.isfile(path):
        return None
    try:
        return parse_env_file(decode_text(read_found(path, MAX_TOML_BYTES), errors="surrogateescape"))
    except (OSError, ValueError):
        return {}


def known_stack(client: Client, path: str | None = None) -> StackInfo | None:
    """Return the services that the server knows of the current folder's project, or of the one that a file
    lies in; None: of none.

    A project whose file is gone is found, too: by the nearest folder that has services.
    """
    place, is_file = path or working_folder(), path is not None and not os.path.isdir(path)
    here = os.path.realpath(os.path.dirname(os.path.abspath(place)) if is_file else place)
    file = None if is_file else find_file(here)
    if file is not None:
        here = os.path.dirname(file)
    above = [one for one in client.services.list() if here == one.folder or here.startswith(f"{one.folder}/")]
    return max(above, key=lambda one: len(one.folder), default=None)


def needed_stack(client: Client, path: str | None = None) -> StackInfo:
    """Return them.

    Raises:
        ConfigInvalid: The server knows none.
    """
    found = known_stack(client, path)
    if found is None:
        text = "This project has no services that run, or ran."
        raise ConfigInvalid("config_invalid", text, hint="`outlive up -d` starts what its file declares.")
    return found


def project_logs(view: LogView, server: ServerFlags) -> int | None:
    """Show the output of this project's services; None where it has none yet."""
    if find_file(working_folder()) is None:
        return None
    # Start-up time: most folders have no such file.
    from outlive.cli.processes import connected  # noqa: PLC0415
    from outlive.extensions.services.service_logs import show_services  # noqa: PLC0415

    with connected(server) as client:
        stack = known_stack(client)
        return None if stack is None else show_services(client, layout_of(server.state_dir), stack, view)
