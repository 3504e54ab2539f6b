"""Where commands run, and what their containers are: `ContainerOptions`."""

from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.docker_values import (
    parse_backend,
    parse_isolation_name,
    parse_mounts,
    parse_network,
    parse_transport,
    parse_user,
)
from outlive.config.values import (
    parse_bound,
    parse_cpus_bound,
    parse_folder,
    parse_size_bound,
    parse_switch,
    parse_text,
    parse_wait,
)


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """The part of `Settings` that decides where commands run that name no place, and what a container may reach and take."""

    backend: str = option(
        "name",
        parse_backend,
        "local",
        "Where commands run that name no place: local, docker, or a node. USE_DOCKER=True means docker.",
        flag="--backend",
        env=("USE_DOCKER",),
        example="docker",
    )
    docker_image: str = option(
        "image",
        parse_text,
        "",
        "Image of containers, where a command names none.",
        flag="--image",
        env=("OUTLIVE_DOCKER_IMAGE",),
        example="debian:12",
    )
    docker_workspace: str = option(
        "path",
        parse_folder,
        "",
        "Folder that containers see under its own name, and may write to; empty: the command's working folder.",
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
        "Whose the processes in containers are, UID or UID:GID; empty: the server's own.",
        flag="--docker-user",
        example="1000:1000",
    )
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
        "Runtime of containers, as `docker info` names it (runsc for gVisor); empty: the daemon's own.",
        flag="--docker-runtime",
        example="runsc",
    )
    docker_isolation: str = option(
        "who",
        parse_isolation_name,
        "session",
        "Who shares a container: session (the commands of one principal in one workspace) or strict (nobody).",
        flag="--docker-isolation",
        example="strict",
        project="stricter",
    )
    docker_transport: str = option(
        "way",
        parse_transport,
        "auto",
        "How commands in containers are reached: sockets, stream (through the daemon, wherever it is), or auto (what works).",
        flag="--docker-transport",
        example="stream",
    )
    docker_idle_s: float = option(
        "time",
        parse_wait,
        "30m",
        "How long a container stays in which nothing runs.",
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
