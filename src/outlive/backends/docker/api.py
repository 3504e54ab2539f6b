"""Calls to the Docker daemon: `DockerApi`, a thin asynchronous client over aiodocker, which is imported when it is first needed.

Every call has a deadline, and every failure becomes an `OutliveError` with a hint. What containers are for is `maker`'s to know.
One `DockerApi` serves a few calls in a row and is closed: a daemon that restarts leaves no dead connection behind.

`DockerSettings` says how the daemon is reached and how long containers stay; what a container is, its plan says.

`open_stream` opens one stream into a container (`POST /exec/{id}/start`) with the standard library only: a tunnel lives as long as its
container and needs two calls, and importing aiodocker would cost it 40 MB (decision 122). What travels over the stream belongs to `ferry`.
"""

import asyncio
import contextlib
import errno
import importlib
import json
import os
import ssl
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed

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


_T = TypeVar("_T")

_NOT_FOUND = 404
_CONFLICT = 409
_UNREACHABLE = 900  # aiodocker's own number: no daemon answers at the address


class NoSuchContainer(Exception):
    """The container is gone; never leaves this package."""


class DockerApi:
    """A few calls to the daemon over one connection: `async with DockerApi(settings) as api`."""

    def __init__(self, settings: DockerSettings) -> None:
        """Take the daemon's address and the deadlines."""
        self._settings = settings
        self._docker: Any = None
        self._error: type[Exception] = OSError

    async def __aenter__(self) -> Self:
        """Load the client and agree on a version of the protocol.

        Raises:
            StartFailed: `docker_unavailable`: aiodocker is missing, no daemon listens, or this user may not connect.
            BackendUnavailable: `docker_timeout`.
        """
        endpoint = self._settings.endpoint
        package = await asyncio.to_thread(_load)  # the first import takes 0.3 s
        context = await asyncio.to_thread(_tls, endpoint.cert_folder) if endpoint.cert_folder else None
        self._error = package.exceptions.DockerError
        # aiodocker uses a given TLS context only with the scheme "https".
        host = endpoint.host if context is None else endpoint.host.replace("tcp://", "https://", 1)
        try:
            self._docker = package.Docker(url=host, ssl_context=context)
        except (ValueError, ImportError) as error:
            raise StartFailed(
                "docker_unavailable",
                f"DOCKER_HOST={endpoint.host!r} cannot be used: {error}",
                hint="For example DOCKER_HOST=unix:///var/run/docker.sock.",
            ) from error
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
        """Return the containers that have all labels, stopped ones included: with `Id`, `Names`, `Labels`, `State`, `Image` and `Created`."""
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

    async def put_archive(self, container_id: str, path: str, archive: bytes) -> None:
        """Unpack a tar archive inside.

        Raises:
            NoSuchContainer: It is gone.
        """
        container = self._docker.containers.container(container_id)
        await self._ask(container.put_archive(path, archive), within_s=self._settings.start_s)

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

    async def remove(self, container_id: str, *, with_volumes: bool = True) -> None:
        """Kill and remove a container; success also when it is gone or being removed already. Named volumes stay."""
        container = self._docker.containers.container(container_id)
        try:
            await self._ask(container.delete(force=True, v=with_volumes), within_s=self._settings.start_s)
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
            raise _unreachable(self._settings.endpoint.host, error) from error

    def _ours(self, error: Exception) -> Exception:
        """Return our error for one of aiodocker's."""
        status = int(getattr(error, "status", 0))
        said = str(getattr(error, "message", error)).strip()
        if status == _UNREACHABLE:
            return _unreachable(self._settings.endpoint.host, error)
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


def _tls(folder: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
        context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
    except OSError as error:
        raise StartFailed(
            "docker_unavailable",
            f"The certificates for the Docker daemon cannot be read ({error.strerror or error}).",
            hint="DOCKER_CERT_PATH names the folder with ca.pem, cert.pem and key.pem.",
        ) from error
    return context


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


_ANSWER_S = 15.0
_SWITCHING = 101
_OK = 200
_CREATED = 201
_MOST_HEAD = 64 * 1024
_MOST_BODY = 4 << 20


class ContainerGone(Exception):
    """The container was removed, or does not run: everything in it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """A tunnel's settings: the daemon as in `Endpoint`, the container's id, and the command to start in it."""

    host: str
    cert_folder: str
    container: str
    command: tuple[str, ...]


async def open_stream(settings: StreamSettings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Start the command in the container; return its output, in the daemon's frames, and its input.

    Raises:
        ContainerGone: There is no such container, or it does not run.
        OSError, EOFError, ValueError, TimeoutError: The daemon is away, or refuses.
    """
    async with asyncio.timeout(_ANSWER_S):
        words = {"AttachStdin": True, "AttachStdout": True, "AttachStderr": True, "Tty": False}
        status, made = await _ask(
            settings, "POST", f"/containers/{settings.container}/exec", {**words, "Cmd": settings.command}
        )
        if status != _CREATED:
            await _raise_if_gone(settings)
            raise ValueError(f"the daemon refuses ({status}): {str(made.get('message', ''))[:300]}")
        return await _start(settings, str(made["Id"]))


async def _start(settings: StreamSettings, made: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Start an exec; its HTTP connection becomes the stream (Docker Engine API, "Stream hijacking")."""
    reader, writer = await _connect(settings)
    status = 0
    try:
        body = json.dumps({"Detach": False, "Tty": False}).encode()
        writer.write(_request("POST", f"/exec/{made}/start", body, "Connection: Upgrade\r\nUpgrade: tcp\r\n"))
        status, _ = await _head(reader)
    finally:
        if status not in {_SWITCHING, _OK}:
            writer.close()
    if status not in {_SWITCHING, _OK}:
        raise ValueError(f"the daemon does not open a stream ({status})")
    return reader, writer


async def _raise_if_gone(settings: StreamSettings) -> None:
    status, about = await _ask(settings, "GET", f"/containers/{settings.container}/json", None)
    if status == _NOT_FOUND or (status == _OK and not about["State"]["Running"]):
        raise ContainerGone(settings.container)


async def _connect(settings: StreamSettings) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the daemon as DOCKER_HOST says: unix://, or tcp:// with or without TLS."""
    scheme, _, rest = settings.host.partition("://")
    if scheme == "unix":
        return await asyncio.open_unix_connection(rest, limit=_MOST_HEAD * 4)
    address = urlsplit(f"//{rest}")
    if scheme not in {"tcp", "http", "https"} or not address.hostname:
        raise ValueError(f"DOCKER_HOST={settings.host!r} cannot be used; unix:// or tcp:// is needed")
    context = None
    if settings.cert_folder or scheme == "https":
        folder = settings.cert_folder
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem") if folder else None)
        if folder:
            context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
    port = address.port or (2376 if context else 2375)  # the daemon's registered ports with and without TLS
    return await asyncio.open_connection(address.hostname, port, ssl=context, limit=_MOST_HEAD * 4)


def _request(method: str, path: str, body: bytes, headers: str) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: docker\r\n{headers}"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Read the head of an HTTP answer: status, and headers by lower-case name."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    return int(first.split(" ", 2)[1]), headers


# One connection for each call: a tunnel makes few, and a kept one would be dead after a restart of the daemon.
async def _ask(
    settings: StreamSettings, method: str, path: str, content: object
) -> tuple[int, dict[str, Any]]:
    reader, writer = await _connect(settings)
    try:
        body = b"" if content is None else json.dumps(content).encode()
        writer.write(_request(method, path, body, "Connection: close\r\n"))
        status, headers = await _head(reader)
        if headers.get("transfer-encoding") == "chunked":
            raw = await _chunks(reader)
        else:
            raw = await reader.readexactly(min(int(headers.get("content-length", 0)), _MOST_BODY))
    finally:
        writer.close()
    found = json.loads(raw or b"{}")
    return status, found if isinstance(found, dict) else {}


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """Read a chunked body (RFC 9112, section 7.1)."""
    raw = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        if len(raw) + size > _MOST_BODY:
            raise ValueError("the daemon's answer is too long")
        raw += await reader.readexactly(size)
        await reader.readline()
    return raw
