"""/v1/files: what is in a folder of a machine, a file's bytes, and a new file.

On this machine, and on its nodes.

Each request opens what it is about (`engine.files`) and closes it: one file is read by ranges, or written
whole. No copy is made of it (`outlive cp` and the Python client copy trees, and go on where they were cut).
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from outlive.core.errors import InvalidRequest, InvalidState, OutliveError
from outlive.core.file_words import PIECE_BYTES
from outlive.frontends.rest.machines.uploads import bounded
from outlive.frontends.rest.output import BYTES_TYPE
from outlive.frontends.rest.routes import RestCall
from outlive.operations.files import (
    FileClose,
    FileDrop,
    FileListing,
    FileMake,
    FileOpen,
    FileRead,
    FileSeal,
    FileWrite,
)
from outlive.protocols.rest.file_requests import (
    ContentParameters,
    FileParameters,
    FolderParameters,
    NewContentParameters,
    range_of,
)

Members = Mapping[str, Any]
_Ask = Callable[..., Awaitable[Members]]
_KEY_BYTES = 8  # of an unfinished file's name: no two requests have the same


async def list_files(call: RestCall, asked: FolderParameters) -> Members:
    """Say what a path leads to, and list a folder's entries, a page at a time."""
    async with _opened(call, asked, writes=False) as (opened, ask):
        entry = opened["entry"]
        if entry is None:
            raise InvalidState("file_missing", "There is no such file or folder.")
        page: Members = {"entries": [], "after": None}
        if entry["kind"] == "folder":
            page = await ask(FileListing(copy=opened["copy"], after=asked.after))
        return {"place": opened["place"], "entry": entry, **page}


async def read_file(call: RestCall, asked: ContentParameters) -> Response:
    """Return a file's bytes, or a range of them."""
    async with contextlib.AsyncExitStack() as stack:
        opened, ask = await stack.enter_async_context(_opened(call, asked, writes=False))
        size = _size_of(opened["entry"])
        version = _version_of(opened["entry"])
        # RFC 9110, section 13.1.5: a range of what is not there any more is ignored. No date is sent, so none
        # is the right one.
        is_meant = asked.if_range in {"", version}
        wanted = range_of(asked.range if is_meant else "", size)
        begin, end = wanted or (0, size)
        pieces = _pieces(stack.pop_all(), ask, opened["copy"], begin, end, version=version)
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Length": str(end - begin),
        "Cache-Control": "no-store",
        "ETag": version,
    }
    if wanted is not None:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    return StreamingResponse(
        pieces, status_code=200 if wanted is None else 206, media_type=BYTES_TYPE, headers=headers
    )


async def _pieces(
    opened: contextlib.AsyncExitStack, ask: _Ask, copy: str, begin: int, end: int, *, version: str
) -> AsyncIterator[bytes]:
    """Yield a file's bytes, a megabyte in memory at a time; a client that does not read makes it wait.

    Each piece is of the file that has the name then.

    Raises:
        InvalidState: `file_changed`: that is another version by now, or was cut; what was yielded before is
        right.
    """
    async with opened:
        while begin < end:
            found = await ask(FileRead(copy=copy, offset=begin, limit=min(PIECE_BYTES, end - begin)))
            if not found["data"] or _version_of(found) != version:
                raise InvalidState("file_changed", "The file was changed while it was sent.")
            yield found["data"]
            begin += len(found["data"])


async def write_file(call: RestCall, asked: NewContentParameters) -> Members:
    """Write the body into a file, in the place of one of that name; it is there whole or not at all."""
    request = cast("Request", call.connection)
    announced = request.headers.get("content-length", "")
    key, hashed, size = os.urandom(_KEY_BYTES).hex(), hashlib.sha256(), 0
    async with _opened(call, asked, writes=True) as (opened, ask):
        copy = opened["copy"]
        try:
            async for piece in _megabytes(bounded(request.stream())):
                await ask(FileWrite(copy=copy, key=key, offset=size), piece)
                hashed.update(piece)
                size += len(piece)
            if not size:
                await ask(FileWrite(copy=copy, key=key))
            _check_size(size, announced)
            sha256 = asked.sha256 or hashed.hexdigest()
            seal = FileSeal(size=size, mtime_ns=time.time_ns(), mode=int(asked.mode, 8), sha256=sha256)
            made = await ask(FileMake(copy=copy, kind="file", key=key, seal=seal))
        except BaseException:
            with contextlib.suppress(OutliveError):  # why it failed is what the caller has to know
                await asyncio.shield(ask(FileDrop(copy=copy, key=key)))
            raise
    return {"place": opened["place"], "entry": made["entry"], "sha256": sha256}


def _version_of(found: Members) -> str:
    """Return the entity tag (RFC 9110, section 8.8.3) of what an entry or piece is of."""
    return f'"{found["size"]:x}-{found["mtime_ns"]:x}-{found["identity"]}"'


def _size_of(entry: Members | None) -> int:
    if entry is None or entry["kind"] != "file":
        raise InvalidState("file_missing" if entry is None else "file_failed", "There is no such file.")
    size: int = entry["size"]
    return size


def _check_size(size: int, announced: str) -> None:
    if announced.isdigit() and int(announced) != size:
        raise InvalidRequest("invalid_params", "Fewer bytes came than were announced.")


async def _megabytes(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a body in pieces of a megabyte, the last one shorter."""
    waiting = bytearray()
    async for piece in pieces:
        waiting += piece
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)


@contextlib.asynccontextmanager
async def _opened(
    call: RestCall, asked: FileParameters, *, writes: bool
) -> AsyncIterator[tuple[Members, _Ask]]:
    """Open a file or folder while the block runs; give what it is, and what asks about it."""
    by, files = call.owner(), call.engine.files
    words = FileOpen(path=asked.path, place=asked.place, write=writes, project=asked.project or None)
    opened = await files.open(by, words)
    try:
        yield opened, partial(files.ask, by)
    finally:
        await asyncio.shield(files.end(by, FileClose(copy=opened["copy"])))
