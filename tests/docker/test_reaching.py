"""The daemon is reached over TCP, with certificates on both sides, as DOCKER_HOST and DOCKER_TLS_VERIFY say."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlive.backends.docker.api import DockerApi, DockerSettings, Endpoint
from outlive.core.errors import OutliveError, StartFailed
from tests.attacks.certificates import Authority
from tests.docker.site import Site

pytestmark = pytest.mark.docker


@contextlib.asynccontextmanager
async def _behind_tcp(socket_path: str, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen on a free port of loopback, and pass everything on to the daemon."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        daemon_reader, daemon_writer = await asyncio.open_unix_connection(socket_path)
        await asyncio.gather(copy(reader, daemon_writer), copy(daemon_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _asked(endpoint: Endpoint) -> bool:
    async with DockerApi(DockerSettings(endpoint=endpoint, answer_s=5.0)) as api:
        return await api.image("outlive-test") is not None


def _certificates(folder: Path) -> ssl.SSLContext:
    """Write what a client needs into the folder, and return the context of a server that wants certificates."""
    authority = Authority(folder, "ca")
    for path, name in zip(authority.issue("client"), ("cert.pem", "key.pem"), strict=True):
        path.rename(folder / name)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.path)
    context.load_cert_chain(*authority.issue("server", "127.0.0.1"))
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_the_daemon_is_reached_over_tcp(site: Site) -> None:
    async with _behind_tcp(site.settings.endpoint.socket_path) as port:
        assert await _asked(Endpoint.of({"DOCKER_HOST": f"tcp://127.0.0.1:{port}"}))


async def test_the_daemon_is_reached_with_certificates(site: Site, tmp_path: Path) -> None:
    context = _certificates(tmp_path)
    async with _behind_tcp(site.settings.endpoint.socket_path, context) as port:
        environ = {
            "DOCKER_HOST": f"tcp://127.0.0.1:{port}",
            "DOCKER_TLS_VERIFY": "1",
            "DOCKER_CERT_PATH": str(tmp_path),
        }
        assert await _asked(Endpoint.of(environ))
        with pytest.raises(OutliveError) as caught:
            await _asked(Endpoint.of({"DOCKER_HOST": environ["DOCKER_HOST"]}))
        assert caught.value.code == "docker_unavailable"


async def test_missing_certificates_are_said(tmp_path: Path) -> None:
    with pytest.raises(StartFailed) as caught:
        await _asked(Endpoint(host="tcp://127.0.0.1:1", cert_folder=str(tmp_path)))
    assert "DOCKER_CERT_PATH" in caught.value.hint
