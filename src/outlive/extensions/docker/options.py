"""Options about containers: `DockerOptions`, with the parsers of their values.

As in `config.options`, a parser raises ValueError with a sentence about the mistake.
"""

import re

from outlive.config.options import (
    option,
    parse_bound,
    parse_cpus_bound,
    parse_folder,
    parse_size_bound,
    parse_switch,
    parse_text,
    parse_wait,
)
from outlive.core.errors import InvalidRequest
from outlive.core.location import parse_isolation
from outlive.core.values import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_USER = re.compile(r"[0-9]{1,10}(:[0-9]{1,10})?")


def parse_isolation_name(text: str) -> str:
    """Return which commands share a container: session or strict."""
    try:
        return parse_isolation(text.strip().lower())
    except InvalidRequest as error:
        raise ValueError("session or strict is needed") from error


def parse_network(text: str) -> str:
    """Return the name of a network.

    The machine's own is refused: it leads to every server that listens on loopback.
    """
    word = text.strip()
    if word == "host" or not _NAME.fullmatch(word):
        raise ValueError('"none" or the name of a Docker network is needed (not the host\'s own)')
    return word


def parse_user(text: str) -> str:
    """Return "UID:GID", "UID", or "" for the server's own."""
    word = text.strip()
    if word and not _USER.fullmatch(word):
        raise ValueError("a user is given by number: UID or UID:GID")
    return word


def parse_mounts(text: str) -> tuple[str, ...]:
    """Return mounts between commas, each "HOST:INSIDE" or "HOST:INSIDE:ro"."""
    mounts = tuple(word for piece in text.split(",") if (word := piece.strip()))
    for mount in mounts:
        words = mount.split(":")
        is_whole = len(words) in {2, 3} and words[2:] in ([], ["ro"], ["rw"])
        if not is_whole or not words[0].startswith("/") or not words[1].startswith("/"):
            raise ValueError(f"{mount[:60]!r} is no mount: HOST:INSIDE or HOST:INSIDE:ro, both absolute")
    return mounts


@dataclass(frozen=True, kw_only=True)
class DockerOptions:
    """What a container may reach and use."""

    docker_image: str = option(
        "image",
        parse_text,
        "",
        "Image of containers, where a command names none.",
        flag="--image",
        env=("OUTLIVE_DOCKER_IMAGE",),
        example="debian:12",
    )
    # What a container sees of the disk. The workspace has the same path inside and outside, so that paths in
    # output hold for both.
    docker_workspace: str = option(
        "path",
        parse_folder,
        "",
        (
            "Folder that containers see under its own name, and may write to; empty: the command's working "
            "folder."
        ),
        flag="--docker-workspace",
        example="/srv/project",
    )
    docker_mounts: tuple[str, ...] = option(
        "words",
        parse_mounts,
        "",
        "More folders that containers see, HOST:INSIDE or HOST:INSIDE:ro, separated by commas.",
        flag="--docker-mounts",
        example="/srv/models:/models:ro",
    )
    # None by default: access to a network is something that the operator grants.
    docker_network: str = option(
        "name",
        parse_network,
        "none",
        "Network of containers: none, or the name of a Docker network.",
        flag="--docker-network",
        example="bridge",
    )
    docker_user: str = option(
        "user",
        parse_user,
        "",
        "User of the processes in containers, UID or UID:GID; empty: the server's own.",
        flag="--docker-user",
        example="1000:1000",
    )
    # Bounds for a whole container, which the daemon enforces with cgroups. Without a bound on processes a
    # fork bomb in a container would stop the machine.
    docker_memory_bytes: int | None = option(
        "size",
        parse_size_bound,
        "2G",
        "Memory that a container may use, its temporary files included; off: any.",
        flag="--docker-memory",
        unit="bytes",
        project="lower",
    )
    docker_cpus: float | None = option(
        "count",
        parse_cpus_bound,
        "off",
        "Processors that a container may keep busy, like 1.5; off: any.",
        flag="--docker-cpus",
        example="2",
        project="lower",
    )
    docker_processes: int | None = option(
        "count",
        parse_bound,
        "512",
        "Processes and threads that a container may have; off: as many as the system allows.",
        flag="--docker-processes",
        project="lower",
    )
    docker_runtime: str = option(
        "name",
        parse_text,
        "",
        "Runtime of containers, as `docker info` names it (crun, nvidia); empty: the daemon's own.",
        flag="--docker-runtime",
        example="crun",
    )
    docker_isolation: str = option(
        "who",
        parse_isolation_name,
        "session",
        (
            "Which commands share a container: session (those of one principal in one workspace) or strict "
            "(none)."
        ),
        flag="--docker-isolation",
        example="strict",
        project="stricter",
    )
    # A container that is kept saves the next command the time in which the daemon makes a new one.
    docker_idle_s: float = option(
        "time",
        parse_wait,
        "30m",
        "How long a container in which nothing runs is kept.",
        flag="--docker-idle",
        unit="seconds",
        project="lower",
    )
    docker_pull: bool = option(
        "switch",
        parse_switch,
        "off",
        "Get images that are missing from their registries; without this their starts are refused.",
        flag="--docker-pull",
        example="on",
        project="off",
    )
