"""What decides how the Docker daemon is reached and how long containers stay: `DockerSettings`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# How commands in containers are reached: by a socket that container and server share, by a stream through the daemon, or
# by whichever works.
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
        """The path of its Unix socket; "" where it is reached otherwise."""
        return self.host.removeprefix(_UNIX) if self.host.startswith(_UNIX) else ""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Endpoint":
        """Return what DOCKER_HOST, DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say, as the docker command reads them."""
        folder = environ.get("DOCKER_CERT_PATH") or f"{environ.get('HOME', '')}/.docker"
        is_tls = bool(environ.get("DOCKER_TLS_VERIFY"))
        return cls(host=environ.get("DOCKER_HOST") or DEFAULT_HOST, cert_folder=folder if is_tls else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """How `Containers` works; what a container is stands in its plan.

    `pull`: get an image that is missing. `idle_s`: how long a container stays in which nobody lives. `answer_s`: how
    long the daemon may take for one answer; `start_s`: for one that starts or removes; `pull_s`: for an image.
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
        """Whether the daemon may run on another machine, so that its files are not ours; sockets mean that it does not."""
        return not self.endpoint.socket_path and self.transport != "sockets"
