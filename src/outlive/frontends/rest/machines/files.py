"""/v1/files: what is in a folder of a machine, a file's bytes, and a new file.

On this machine, and on its nodes.

Each request opens a copy of its own (`engine.files`) and closes it. `outlive cp` and the Python client copy
trees, and go on where they were cut; here one file is read by ranges, or written whole.
"""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from outlive.core.errors import InvalidRequest, InvalidState, OutliveError
from outlive.core.file_words import PIECE_BYTES
from outlive.core.process import Owner
from outlive.frontends.rest.machines.uploads import MOST_BYTES
from outlive.frontends.rest.output import BYTES_TYPE
from outlive.frontends.rest.problems import HttpRefusal
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
_KEY_BYTES = 8  # of an unfinished file's name: no two requests have the same


async def list_files(call: RestCall, asked: FolderParameters) -> Members:
    """Say what a path leads to, and list a folder's entries, a page at a time."""
    by = call.owner()
    opened = await _opened(call, by, asked, writes=False)
    try:
        entry = opened["entry"]
        if entry is None:
            raise InvalidState("file_missing", "There is no such file or folder.")
        page: Members = {"entries": [], "after": None}
        if entry["kind"] == "folder":
            page = await call.engine.files.ask(by, FileListing(copy=opened["copy"], after=asked.after))
    finally:
        await _close(call, by, opened["copy"])
    return {"place": opened["place"], "entry": entry, **page}


async def read_file(call: RestCall, asked: ContentParameters) -> Response:
    """Return a file's bytes, or a range of them."""
    by = call.owner()
    opened = await _opened(call, by, asked, writes=False)
    try:
        size = _size_of(opened["entry"])
        version = _version_of(opened["entry"])
        # RFC 9110, section 13.1.5: a range of what is not there any more is ignored. No date is sent, so none
        # is the right one.
        is_meant = asked.if_range in {"", version}
        wanted = range_of(asked.range if is_meant else "", size)
    except BaseException:
        await _close(call, by, opened["copy"])
        raise
    begin, end = wanted or (0, size)
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Length": str(end - begin),
        "Cache-Control": "no-store",
        "ETag": version,
    }
    if wanted is not None:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    return StreamingResponse(
        _pieces(call, by, opened["copy"], begin, end, version=version),
        status_code=200 if wanted is None else 206,
        media_type=BYTES_TYPE,
        headers=headers,
    )


async def _pieces(
    call: RestCall, by: Owner, copy: str, begin: int, end: int, *, version: str
) -> AsyncIterator[bytes]:
    """Yield a file's bytes, a megabyte in memory at a time; a client that does not read makes it wait.

    Each piece is of the file that has the name then.

    Raises:
        InvalidState: `file_changed`: that is another version by now, or was cut; what was yielded before is
        right.
    """
    try:
        while begin < end:
            limit = min(PIECE_BYTES, end - begin)
            found = await call.engine.files.ask(by, FileRead(copy=copy, offset=begin, limit=limit))
            data = found["data"]
            if not data or _version_of(found) != version:
                raise InvalidState("file_changed", "The file was changed while it was sent.")
            yield data
            begin += len(data)
    finally:
        await asyncio.shield(_close(call, by, copy))


async def write_file(call: RestCall, asked: NewContentParameters) -> Members:
    """Write the body into a file, in the place of one of that name; it is there whole or not at all."""
    by, files = call.owner(), call.engine.files
    request = cast("Request", call.connection)
    announced = request.headers.get("content-length", "")
    opened = await _opened(call, by, asked, writes=True)
    copy, key = opened["copy"], os.urandom(_KEY_BYTES).hex()
    hashed, size = hashlib.sha256(), 0
    try:
        async for piece in _megabytes(request.stream()):
            await files.ask(by, FileWrite(copy=copy, key=key, offset=size), piece)
            hashed.update(piece)
            size += len(piece)
        if not size:
            await files.ask(by, FileWrite(copy=copy, key=key))
        _check_size(size, announced)
        seal = FileSeal(
            size=size,
            mtime_ns=time.time_ns(),
            mode=int(asked.mode, 8),
            sha256=asked.sha256 or hashed.hexdigest(),
        )
        made = await files.ask(by, FileMake(copy=copy, kind="file", key=key, seal=seal))
    except BaseException:
        await asyncio.shield(_drop(call, by, copy, key))
        raise
    finally:
        await asyncio.shield(_close(call, by, opened["copy"]))
    return {"place": opened["place"], "entry": made["entry"], "sha256": seal.sha256}


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
    """Yield a body in pieces of a megabyte, the last one shorter.

    Raises:
        HttpRefusal: `body_too_large`.
    """
    waiting, left = bytearray(), MOST_BYTES
    async for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise HttpRefusal("body_too_large", f"A file may have {MOST_BYTES} bytes.")
        waiting += piece
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)


async def _opened(call: RestCall, by: Owner, asked: FileParameters, *, writes: bool) -> Members:
    words = FileOpen(path=asked.path, place=asked.place, write=writes, project=asked.project or None)
    return await call.engine.files.open(by, words)


async def _close(call: RestCall, by: Owner, copy: str) -> None:
    await call.engine.files.end(by, FileClose(copy=copy))


async def _drop(call: RestCall, by: Owner, copy: str, key: str) -> None:
    with contextlib.suppress(OutliveError):  # why it failed is what the caller has to know
        await call.engine.files.ask(by, FileDrop(copy=copy, key=key))
