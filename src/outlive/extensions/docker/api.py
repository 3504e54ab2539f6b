"""Calls to the Docker daemon: `DockerApi`, a thin asynchronous client over aiodocker, which is imported when
it is first needed.

Every call has a deadline, and every failure becomes an `OutliveError` with a hint. What containers are for is
`maker`'s to know. One `DockerApi` serves a few calls in a row and is closed: a daemon that restarts leaves no
dead connection behind.

`DockerSettings` says where the daemon listens and how long containers stay; what a container is, its plan
says. Only a daemon of this machine is called: commands in containers are reached by a Unix socket of this
machine (decision 122).
"""

import asyncio
import contextlib
import errno
import importlib
from collections.abc import Awaitable, Iterator, Mapping
from types import ModuleType
from typing import Any, Self, TypeVar

from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from outlive.core.values import dataclass

DEFAULT_HOST = "unix:///var/run/docker.sock"
_UNIX = "unix://"
NODE_WORDS = (
    "`outlive node add NAME URL` here, or `outlive node invite NAME` here and `outlive node join` there."
)
NODE_HINT = f"Run an outlive server beside that daemon and add it as a node: {NODE_WORDS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """The settings of `Containers`; the properties of one container are in its plan.

    `host`: where the daemon listens, as in DOCKER_HOST. `pull`: get an image that is missing. `idle_s`: how
    long a container without commands is kept. `answer_s`: how long the daemon may take for one answer;
    `start_s`: for a call that starts or removes; `pull_s`: for an image. `own`: paths that outlive reads its
    code and settings from.
    """

    host: str = DEFAULT_HOST
    pull: bool = False
    idle_s: float = 1800.0
    own: tuple[str, ...] = ()
    answer_s: float = 15.0
    start_s: float = 60.0  # a daemon that starts twenty containers at once takes 10 s for the last one
    pull_s: float = 900.0

    @property
    def socket_path(self) -> str:
        """The path of the daemon's Unix socket."""
        return self.host.removeprefix(_UNIX)


def docker_host(environ: Mapping[str, str]) -> str:
    """Return where the daemon listens, as the docker command reads it from the environment."""
    return environ.get("DOCKER_HOST") or DEFAULT_HOST


def check_host(host: str) -> None:
    """Refuse a daemon that listens at no Unix socket.

    Raises:
        StartFailed: `docker_unavailable`.
    """
    if not host.startswith(_UNIX):
        raise StartFailed(
            "docker_unavailable",
            (
                f"DOCKER_HOST={host!r} cannot be used: commands in containers are reached by Unix sockets of "
                "this machine (unix://)."
            ),
            hint=NODE_HINT,
        )


_T = TypeVar("_T")

_NOT_FOUND = 404
_CONFLICT = 409
_UNREACHABLE = 900  # aiodocker's own number: no daemon answers at the address


class NoSuchContainer(Exception):
    """The container is gone; never leaves this package."""


class DockerApi:
    """A few calls to the daemon over one connection: `async with DockerApi(settings) as api`."""

    def __init__(self, settings: DockerSettings) -> None:
        self._settings = settings
        self._docker: Any = None
        self._error: type[Exception] = OSError

    async def __aenter__(self) -> Self:
        """Load the client and agree on a version of the protocol.

        Raises:
            StartFailed: `docker_unavailable`: the daemon is not on this machine, aiodocker is missing, no
                daemon listens, or this user may not connect.
            BackendUnavailable: `docker_timeout`.
        """
        check_host(self._settings.host)
        package = await asyncio.to_thread(_load)  # the first import takes 0.3 s
        self._error = package.exceptions.DockerError
        self._docker = package.Docker(url=self._settings.host)
        try:
            await self._ask(self._docker.version())
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close the connection."""
        docker, self._docker = self._docker, None
        if docker is not None:
            await docker.close()

    async def image(self, name: str) -> Mapping[str, Any] | None:
        """Return the daemon's facts about an image, None when it does not have it."""
        try:
            found: Mapping[str, Any] = await self._ask(self._docker.images.inspect(name))
        except NoSuchContainer:
            return None
        return found

    async def pull(self, name: str) -> None:
        """Get an image from its registry."""
        try:
            await self._ask(self._docker.images.pull(name), within_s=self._settings.pull_s)
        except (NoSuchContainer, StartFailed) as error:
            if isinstance(error, StartFailed) and error.code != "container_failed":
                raise
            raise StartFailed("image_missing", f"The image {name!r} could not be got: {error}") from error

    async def find(self, labels: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Return the containers that have all labels, stopped ones included: with `Id`, `Names`, `Labels`,
        `State`, `Image` and `Created`.
        """
        wanted = [f"{name}={value}" for name, value in labels.items()]
        found = await self._ask(self._docker.containers.list(all=True, filters={"label": wanted}))
        keys = ("Id", "Names", "Labels", "State", "Image", "Created")
        return [{key: one[key] for key in keys} for one in found]

    async def create(self, name: str, recipe: Mapping[str, Any]) -> str | None:
        """Make a container and return its id; None when the name is taken."""
        try:
            made = await self._ask(
                self._docker.containers.create(dict(recipe), name=name), within_s=self._settings.start_s
            )
        except NoSuchContainer as error:
            raise image_missing(str(recipe["Image"])) from error
        except StartFailed as error:
            if error.details.get("status") == _CONFLICT:
                return None
            raise
        return str(made.id)

    async def inspect(self, container_id: str) -> Mapping[str, Any]:
        """Return the daemon's facts about a container.

        Raises:
            NoSuchContainer: It is gone.
        """
        found: Mapping[str, Any] = await self._ask(self._docker.containers.container(container_id).show())
        return found

    async def start(self, container_id: str) -> None:
        """Start it; nothing happens to one that runs.

        Raises:
            NoSuchContainer: It is gone.
        """
        await self._ask(
            self._docker.containers.container(container_id).start(), within_s=self._settings.start_s
        )

    async def rename(self, container_id: str, name: str) -> None:
        """Give it another name.

        Raises:
            NoSuchContainer: It is gone.
        """
        await self._ask(self._docker.containers.container(container_id).rename(name))

    async def unpause(self, container_id: str) -> None:
        """Resume a paused container; one that is not paused is left as it is."""
        with contextlib.suppress(StartFailed):
            await self._ask(self._docker.containers.container(container_id).unpause())

    async def remove(self, container_id: str) -> None:
        """Kill and remove a container; success also when it is gone or being removed already.

        Named volumes stay.
        """
        container = self._docker.containers.container(container_id)
        try:
            await self._ask(container.delete(force=True, v=True), within_s=self._settings.start_s)
        except NoSuchContainer:
            return
        except StartFailed as error:
            if error.details.get("status") != _CONFLICT:  # "removal is already in progress"
                raise

    async def _ask(self, call: Awaitable[_T], *, within_s: float | None = None) -> _T:
        """Return the daemon's answer to a call; the one place where aiodocker's errors become ours."""
        seconds = self._settings.answer_s if within_s is None else within_s
        try:
            async with asyncio.timeout(seconds):
                return await call
        except TimeoutError as error:
            raise BackendUnavailable(
                "docker_timeout", f"The Docker daemon did not answer within {seconds:g} s."
            ) from error
        except self._error as error:
            raise self._ours(error) from error
        except OSError as error:  # the connection broke in the middle
            raise _unreachable(self._settings.host, error) from error

    def _ours(self, error: Exception) -> Exception:
        """Return our error for one of aiodocker's."""
        status = int(getattr(error, "status", 0))
        said = str(getattr(error, "message", error)).strip()
        if status == _UNREACHABLE:
            return _unreachable(self._settings.host, error)
        if status == _NOT_FOUND and said.lower().startswith("no such "):
            return NoSuchContainer(said)
        return StartFailed(
            "container_failed", f"The Docker daemon refused: {said[:600]}", details={"status": status}
        )


def _load() -> ModuleType:
    try:
        return importlib.import_module("aiodocker")
    except ImportError as error:
        raise StartFailed(
            "docker_unavailable",
            f"Docker mode needs a package that is not installed: {error.name or 'aiodocker'}.",
            hint="Install it: pip install 'outlive[docker]'.",
        ) from error


def daemon_elsewhere() -> OutliveError:
    """Return the error for a daemon that has other files or processes than this machine."""
    return StartFailed(
        "docker_unavailable",
        "The Docker daemon runs its containers on another machine, or in a virtual one (Docker Desktop), "
        "where no socket of this server reaches them.",
        hint=NODE_HINT,
    )


def image_missing(image: str) -> OutliveError:
    """Return the error for an image that the daemon does not have."""
    return StartFailed(
        "image_missing",
        f"The Docker daemon does not have the image {image!r}.",
        hint=f"Get it: docker pull {image} (or start the server with --docker-pull).",
        details={"image": image},
    )


def _unreachable(host: str, error: BaseException) -> OutliveError:
    number = next((one.errno for one in _causes(error) if isinstance(one, OSError) and one.errno), 0)
    if number in {errno.EACCES, errno.EPERM}:
        return StartFailed(
            "docker_unavailable",
            f"This user may not talk to the Docker daemon at {host}.",
            hint="Join the group docker (sudo usermod -aG docker $USER), and log in again.",
        )
    reason = {errno.ENOENT: "there is no such socket", errno.ECONNREFUSED: "no process listens"}.get(number)
    return StartFailed(
        "docker_unavailable", f"The Docker daemon at {host} cannot be reached: {reason or error}."
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes; aiodocker raises without `from`, so the context is followed, too."""
    current: BaseException | None = error
    for _ in range(10):
        if current is None:
            return
        yield current
        inner = getattr(current, "os_error", None)
        current = inner if isinstance(inner, BaseException) else current.__cause__ or current.__context__
