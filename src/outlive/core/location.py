"""Where a process runs: `Location`, with the kind of place.

And `ContainerPlan`, everything that decides what a container is. Pure.
"""

import json
from typing import Literal, get_args

from outlive.core.documents import decode_json
from outlive.core.errors import InvalidRequest
from outlive.core.values import asdict, dataclass, fields

LOCAL = "local"
DOCKER = "docker"
ANY = "any"  # whichever machine has room: the place of a command that has none yet

# "session": all commands of one principal in one workspace share a container; "strict": each command has its
# own.
Isolation = Literal["session", "strict"]
_NAME_CHARACTERS = 16  # of a hash: 64 bits


# What sort of place a backend is: this machine, a container on it, or another outlive server. `execution`
# says which backend serves a kind; a further kind is a member here, a backend and a line there.
Kind = Literal["local", "container", "node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a process runs: what kind of place, the backend's name, and in which container of what image.

    The name is "local", "docker", or a node's.
    """

    kind: Kind
    backend: str
    image: str | None = None
    container: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is not decided yet on which machine."""
        return self.backend == ANY

    @property
    def is_elsewhere(self) -> bool:
        """Whether it runs on another machine, so that this one's keeper and pids say nothing about it."""
        return self.kind not in {"local", "container"}

    def view(self) -> dict[str, str]:
        """Return it as every frontend shows it: what there is of it, the kind excepted."""
        members = {"backend": self.backend, "image": self.image, "container": self.container}
        return {name: value for name, value in members.items() if value is not None}

    def encode(self) -> dict[str, str]:
        """Return it as files keep it: with its kind."""
        return {**self.view(), "kind": self.kind}

    @classmethod
    def decode(cls, members: object) -> "Location":
        """Return what `encode` made; files of commands on this machine have nothing of it.

        Raises:
            ValueError: The kind is not known. It is not taken for another kind.
        """
        if not isinstance(members, dict):
            return HERE
        known = {name: str(value) for name, value in members.items() if value is not None}
        return cls(
            kind=parse_kind(known.get("kind", "")),
            backend=known.get("backend", LOCAL),
            image=known.get("image"),
            container=known.get("container"),
        )


HERE = Location(kind="local", backend=LOCAL)  # on this machine, and in no container


def parse_kind(text: str) -> Kind:
    """Return the kind of place of that name.

    Raises:
        ValueError: There is none.
    """
    for known in get_args(Kind):
        if text == known:
            return known  # type: ignore[no-any-return] # one of the literal's own arguments
    raise ValueError(f"not a kind of place: {text[:40]!r}")


def parse_isolation(text: str) -> Isolation:
    """Return the isolation of a name.

    Raises:
        InvalidRequest: There is none of that name.
    """
    for known in get_args(Isolation):
        if text == known:
            return known  # type: ignore[no-any-return] # one of the literal's own arguments
    known_names = ", ".join(get_args(Isolation))
    raise InvalidRequest("invalid_params", f"isolation: {text[:40]!r} is not known; there are {known_names}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """Everything that decides what a container is: two starts with equal plans share a container.

    `workspace` is a folder, mounted under its own name; `mounts` are further ones, "HOST:INSIDE[:ro]". `user`
    is "UID[:GID]", `network` is "none" or a network's name; an empty `runtime` or `user` stands for the
    daemon's or the image's. Sizes are bytes, None = no limit. `process_id` is set if the container belongs to
    one process alone.
    """

    image: str
    workspace: str
    principal: str
    user: str = ""
    mounts: tuple[str, ...] = ()
    network: str = "none"
    runtime: str = ""
    memory_bytes: int | None = None
    cpus: float | None = None
    processes: int | None = None
    process_id: str = ""

    @property
    def isolation(self) -> Isolation:
        """Which commands share it."""
        return "strict" if self.process_id else "session"

    @property
    def name(self) -> str:
        """The name of its folder, which is different for every other plan."""
        import hashlib  # noqa: PLC0415 -- start-up time: it loads OpenSSL, and most clients name no container

        digest = hashlib.sha256(self.encode()).hexdigest()
        return f"{self.isolation}-{digest[:_NAME_CHARACTERS]}"

    def encode(self) -> bytes:
        """Return it as JSON, with the same bytes for equal plans."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def decode(cls, raw: bytes) -> "ContainerPlan":
        """Read what `encode` wrote.

        Raises:
            ValueError: The bytes are no plan.
        """
        found = decode_json(raw)
        if not isinstance(found, dict) or found.keys() != {entry.name for entry in fields(cls)}:
            raise ValueError(f"not a container's plan: {raw[:60]!r}")
        return cls(**{**found, "mounts": tuple(found["mounts"])})
