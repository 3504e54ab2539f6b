"""One stream into a container through the Docker daemon (`POST /exec/{id}/start`), with the standard library only.

The ferry lives as long as its container and needs two calls only: importing aiodocker would cost it 40 MB (decision 122). What
travels over the stream belongs to `ferry`; all other calls to the daemon to `api`.
"""

import asyncio
import json
import os
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_ANSWER_S = 15.0
_SWITCHING = 101
_OK = 200
_CREATED = 201
_NOT_FOUND = 404
_MOST_HEAD = 64 * 1024
_MOST_BODY = 4 << 20


class ContainerGone(Exception):
    """The container was removed, or does not run: everything in it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """A ferry's settings: the daemon as in `Endpoint`, the container's id, and the command to start in it."""

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


# One connection for each call: the ferry makes few, and a kept one would be dead after a restart of the daemon.
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
