"""How the Docker daemon is reached, and how long containers stay: `DockerSettings`. What a container is, its plan says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# How commands in containers are reached: by a socket that container and server share, by a stream through the daemon, or by the
# one of the two that works.
Transport = Literal["sockets", "stream", "auto"]

DEFAULT_HOST = "unix:///var/run/docker.sock"
_UNIX = "unix://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where the daemon listens: `host` as in DOCKER_HOST; `cert_folder` holds ca.pem, cert.pem and key.pem for TLS."""

    host: str = DEFAULT_HOST
    cert_folder: str = ""

    @property
    def socket_path(self) -> str:
        """The path of the daemon's Unix socket; "" when it is reached over TCP."""
        return self.host.removeprefix(_UNIX) if self.host.startswith(_UNIX) else ""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Endpoint":
        """Return the endpoint of DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, read as the docker command does."""
        folder = environ.get("DOCKER_CERT_PATH") or f"{environ.get('HOME', '')}/.docker"
        is_tls = bool(environ.get("DOCKER_TLS_VERIFY"))
        return cls(host=environ.get("DOCKER_HOST") or DEFAULT_HOST, cert_folder=folder if is_tls else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """The settings of `Containers`; the properties of one container are in its plan.

    `pull`: get an image that is missing. `idle_s`: how long a container without commands is kept. `answer_s`: how long the daemon
    may take for one answer; `start_s`: for a call that starts or removes; `pull_s`: for an image.
    """

    endpoint: Endpoint = Endpoint()
    transport: Transport = "auto"
    pull: bool = False
    idle_s: float = 1800.0
    answer_s: float = 15.0
    start_s: float = 60.0  # a daemon that starts twenty containers at once takes 10 s for the last one
    pull_s: float = 900.0

    @property
    def is_remote(self) -> bool:
        """Whether the daemon may run on another machine, with other files; the setting "sockets" says that it does not."""
        return not self.endpoint.socket_path and self.transport != "sockets"
