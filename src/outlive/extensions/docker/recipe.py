"""From a plan to the body of the daemon's `create`, with labels and names. Pure.

All hardening of containers is here and nowhere else: every container is made by `recipe`. Mounts are checked
before, by `mounts`; the daemon is called by `api`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from outlive.core.errors import InvalidRequest, OutliveError, StartFailed
from outlive.core.location import ContainerPlan
from outlive.core.values import dataclass
from outlive.extensions.docker.mounts import HAND_FOLDER, RUNNER_PATH, TEMPORARY, Mount

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_USER = re.compile(r"([0-9]{1,10})(?::([0-9]{1,10}))?")
_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_MAX_ID = 2**32 - 2
_ASIDE = "-aside-"  # marks the name of a container that gets no more commands
HAND_NAME = "hand.sock"
# Soft and hard limit of open files. The daemon's own may be a million or more; a program that closes all
# possible descriptors then takes seconds. The hard limit is one that rootless daemons, and those without
# CAP_SYS_RESOURCE, can still grant.
_OPEN_FILES = (1024, 16384)


class Labels:
    """The labels by which our containers are found: the state folder's, the container's name, and hashes of
    plan and body.
    """

    STATE = "outlive.state"
    CONTAINER = "outlive.container"
    PLAN = "outlive.plan"
    RECIPE = "outlive.recipe"


@dataclass(frozen=True, slots=True)
class ContainerOwner:
    """User and group of the processes in a container."""

    uid: int
    gid: int


def state_label(state_dir: str, machine_id: str) -> str:
    """Return the label of this state folder's containers.

    The machine is part of it, since machines may share a daemon.
    """
    return hashlib.sha256(f"{machine_id.strip()}\n{state_dir}".encode()).hexdigest()[:16]


def container_name(state: str, name: str) -> str:
    """Return the name that `docker ps` shows."""
    return f"outlive-{state[:8]}-{name}"


def aside_name(name: str, container_id: str) -> str:
    """Return the new name of a container that gets no more commands, while old ones go on in it."""
    return f"{name}{_ASIDE}{container_id[:12]}"


def is_set_aside(found: Mapping[str, Any]) -> bool:
    """Tell whether a container, as the daemon lists it, was set aside under a name of `aside_name`."""
    return any(_ASIDE in str(name) for name in found.get("Names") or [])


def check_plan(plan: ContainerPlan) -> None:
    """Refuse a plan whose values must not reach the daemon.

    Raises:
        InvalidRequest: Image, network or user cannot be used.
    """
    if not _IMAGE.fullmatch(plan.image) or ".." in plan.image:
        raise InvalidRequest("invalid_params", f"{plan.image[:80]!r} is no name of an image.")
    if not _NETWORK.fullmatch(plan.network) or plan.network in {"host", "container"}:
        # With the host's network a command would reach every server on this machine's loopback, this one
        # included.
        raise InvalidRequest(
            "invalid_params",
            f"network: {plan.network[:80]!r} cannot be used; none, or the name of a network, is needed.",
        )
    if plan.user:
        _numbers(plan.user)


def owner_of(plan: ContainerPlan, image: Mapping[str, Any]) -> ContainerOwner:
    """Return the user of a container: the plan's, else the image's.

    Raises:
        StartFailed: The image names its user by a word, whose number stands only in the image's own files.
    """
    if plan.user:
        return _numbers(plan.user)
    named = str((image.get("Config") or {}).get("User") or "0:0")
    try:
        return _numbers(named)
    except InvalidRequest as error:
        raise StartFailed(
            "container_failed",
            f"The image {plan.image!r} runs as {named!r}, whose number is not known outside.",
            hint="Name the user by number: --docker-user UID:GID.",
        ) from error


def machine_of(image: Mapping[str, Any]) -> str:
    """Return the machine that an image is made for, as uname names it.

    Raises:
        StartFailed: There is no runner for it.
    """
    named = str(image.get("Architecture", ""))
    if named not in _MACHINES:
        raise StartFailed(
            "container_failed",
            f"The image is made for {named!r}, for which there is no runner.",
            hint="Use an image for amd64 or arm64.",
        )
    return _MACHINES[named]


def recipe(
    plan: ContainerPlan,
    *,
    state: str,
    owner: ContainerOwner,
    image_id: str,
    mounts: Sequence[Mount],
    runner: str,
    hand_folder: str,
    lock: str,
) -> dict[str, Any]:
    """Return the body of `POST /containers/create`.

    Args:
        plan: The container's properties.
        state: The state folder's label.
        owner: User and group of its processes.
        image_id: The image that the name means now; part of the recipe's hash, so that a newer image makes a
            new container.
        mounts: The plan's mounts, checked.
        runner: The runner's file on this machine.
        hand_folder: The folder on this machine in which the runner gets its listening socket.
        lock: The device and inode of the supervisor's lock, which the runner gets, too.
    """
    body: dict[str, Any] = {
        "Image": plan.image,
        "Hostname": plan.name,
        "User": f"{owner.uid}:{owner.gid}",
        "Entrypoint": [RUNNER_PATH],
        "Cmd": _serving(lock),
        # The image's own home folder is read-only, and a workspace should not fill with dot files.
        "Env": ["HOME=/tmp"],
        "WorkingDir": mounts[0].target,
        "StopSignal": "SIGTERM",
        "Tty": False,
        "OpenStdin": False,
        "Healthcheck": {
            "Test": ["NONE"]
        },  # the image's own would start processes that no caller has asked for
        "HostConfig": _host_config(
            plan,
            [
                _bind(hand_folder, HAND_FOLDER, is_read_only=True),
                _bind(runner, RUNNER_PATH, is_read_only=True),
                *map(_mounted, mounts),
            ],
        ),
    }
    if plan.network == "none":
        body["NetworkDisabled"] = True
    # Any change of body or image changes the hash: a stopped container with another hash is not started
    # again.
    marked = json.dumps([body, image_id], sort_keys=True).encode()
    body["Labels"] = {
        Labels.STATE: state,
        Labels.CONTAINER: plan.name,
        Labels.PLAN: hashlib.sha256(plan.encode()).hexdigest(),
        Labels.RECIPE: hashlib.sha256(marked).hexdigest(),
    }
    return body


def _serving(lock: str) -> list[str]:
    return ["serve", "--handed", f"--lock={lock}", f"{HAND_FOLDER}/{HAND_NAME}"]


def _host_config(plan: ContainerPlan, mounts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    taken = {mount["Target"] for mount in mounts}
    config: dict[str, Any] = {
        "Init": False,  # the runner is the first process: it reaps orphans and forwards signals
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "ReadonlyRootfs": True,
        "Tmpfs": {path: _tmpfs(path) for path in TEMPORARY if path not in taken},
        "Mounts": mounts,
        "NetworkMode": plan.network,
        "IpcMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        # A restarted container would be empty: its commands have ended with its first process.
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Ulimits": [
            {"Name": "nofile", "Soft": _OPEN_FILES[0], "Hard": _OPEN_FILES[1]},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
    }
    if plan.memory_bytes is not None:
        # No swap beside it: otherwise a command could use as much again on the disk.
        config |= {"Memory": plan.memory_bytes, "MemorySwap": plan.memory_bytes}
    if plan.cpus is not None:
        config["NanoCpus"] = round(plan.cpus * 1e9)
    if plan.processes is not None:
        config["PidsLimit"] = plan.processes
    if plan.runtime:
        config["Runtime"] = plan.runtime
    return config


def _tmpfs(path: str) -> str:
    # Executable, because build tools run programs from /tmp. Its content counts as the container's memory.
    return "rw,nosuid,nodev,mode=1777" + (",noexec,size=16m" if path == "/run" else ",exec")


def _mounted(mount: Mount) -> dict[str, Any]:
    if mount.is_closed:
        return {"Type": "tmpfs", "Target": mount.target, "ReadOnly": True}
    return _bind(mount.source, mount.target, is_read_only=mount.is_read_only)


def _bind(source: str, target: str, *, is_read_only: bool = False) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": is_read_only}


def _numbers(text: str) -> ContainerOwner:
    matched = _USER.fullmatch(text)
    if matched is None or any(int(part) > _MAX_ID for part in matched.groups("0")):
        raise _no_user(text)
    return ContainerOwner(int(matched[1]), int(matched[2] or matched[1]))


def _no_user(text: str) -> OutliveError:
    return InvalidRequest("invalid_params", f"user: {text[:80]!r} cannot be used; UID or UID:GID is needed.")
