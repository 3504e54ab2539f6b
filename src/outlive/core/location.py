"""Where a process runs: `Location`; and `ContainerPlan`, everything that decides what a container is. Pure."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Literal, get_args

from outlive.core.errors import InvalidRequest

LOCAL = "local"
DOCKER = "docker"

# "session": all commands of one principal in one workspace share a container; "strict": each command has its own.
Isolation = Literal["session", "strict"]
_NAME_CHARACTERS = 16  # of a hash: 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a process runs: the backend ("local", "docker", or the name of a node), its container, and that one's image."""

    backend: str = LOCAL
    image: str | None = None
    container: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine and in no container."""
        return self.backend == LOCAL and self.container is None and self.image is None

    @property
    def is_node(self) -> bool:
        """Whether it runs on another server; otherwise this machine's keeper has it."""
        return self.backend not in {LOCAL, DOCKER}

    def view(self) -> dict[str, str]:
        """Return it as every frontend shows it, without the members that are not set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def read(cls, view: object) -> "Location":
        """Return the location that `view` described; anything else stands for this machine."""
        if not isinstance(view, dict):
            return HERE
        known = {entry.name: view.get(entry.name) for entry in fields(cls)}
        return cls(**{name: str(value) for name, value in known.items() if value is not None})


HERE = Location()


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

    `workspace` is a folder, mounted under its own name; `mounts` are further ones, "HOST:INSIDE[:ro]". `user` is "UID[:GID]",
    `network` is "none" or a network's name; an empty `runtime` or `user` stands for the daemon's or the image's. Sizes are
    bytes, None = no limit. `process_id` is set if the container belongs to one process alone.
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
        found = json.loads(raw)
        if not isinstance(found, dict) or found.keys() != {entry.name for entry in fields(cls)}:
            raise ValueError(f"not a container's plan: {raw[:60]!r}")
        return cls(**{**found, "mounts": tuple(found["mounts"])})
