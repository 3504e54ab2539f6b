"""/v1/files: what is in a folder of a machine, a file's bytes, and a new file, on this machine and on its
nodes; and a file that is put into the folder of a process, wherever it runs (`upload`).

Each request opens what it is about (`engine.files`) and closes it: one file is read by ranges, or written
whole. No copy is made of it (`outlive cp` and the Python client copy trees, and go on where they were cut).
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from outlive.core.controls import CloseInput
from outlive.core.errors import InvalidRequest, InvalidState, OutliveError
from outlive.core.file_words import PIECE_BYTES
from outlive.engine import Process
from outlive.frontends.rest.output import BYTES_TYPE
from outlive.frontends.rest.problems import HttpRefusal
from outlive.frontends.rest.routes import RestCall, json_answer
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
from outlive.protocols.rest.requests import (
    ContentParameters,
    FileParameters,
    FolderParameters,
    NewContentParameters,
    StartRequest,
    UploadParameters,
    range_of,
)

MOST_BYTES = 4 * 1024**3  # of one file; the disk's own bounds come first on most machines
_LONGEST_S = 3600.0  # an upload whose server was killed waits for input that never comes: then it is ended
_SHOWN_BYTES = 300
_EXISTS = 73  # EX_CANTCREAT (sysexits.h)
_CUT = 65  # EX_DATAERR: fewer bytes came than were announced
# The name of what is not whole yet is random, and known before it is there: whenever the script is ended, it
# is removed. The shell waits for `cat` by a word that signals interrupt: one that comes between fork(2) and
# execve(2) is lost for the child, which has the shell's traps then.
_SCRIPT = """
file=./.upload-$4
trap 'rm -f -- "$file"' EXIT
trap 'exit 1' HUP INT TERM
umask 077
set -C
exec 3<&0 4>"$file" || exit 1
cat <&3 >&4 3<&- 4>&- &
exec 4>&-
wait "$!" || exit 1
[ -z "$2" ] || [ "$(wc -c < "$file")" -eq "$2" ] || exit 65
if [ "$3" = replace ]; then
    [ ! -d "./$1" ] || [ -L "./$1" ] || exit 73
    mv -fT -- "$file" "./$1" || exit 1
elif ! ln -T -- "$file" "./$1"; then
    [ -e "./$1" ] || [ -L "./$1" ] || exit 1
    exit 73
fi
"""


async def upload(call: RestCall, asked: UploadParameters) -> Response:
    """Write the body into a new file in the process's working folder, or another one.

    It appears whole or not at all.
    """
    target = await call.find(asked)
    record = target.record
    name = _file_name(asked.name)
    if record.location.kind != "local":
        raise InvalidRequest("invalid_params", "Files go to processes of the server's own machine.")
    request = cast("Request", call.connection)
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MOST_BYTES:
        raise _too_large()
    mode = "replace" if asked.replace else "new"
    command = StartRequest(
        argv=("sh", "-c", _SCRIPT, "upload", name, announced, mode, secrets.token_hex(10)),
        cwd=asked.folder or await asyncio.to_thread(_folder_of, target),
        stdin="pipe",
        profile=record.sandbox.profile.value,
        timeout=_LONGEST_S,
        tags={"upload": name},
        project=record.project,
    ).to_command()
    writing = await call.engine.starts.start(command, owner=call.owner())
    try:
        written = await call.acting.write(writing, bounded(request.stream()))
        await call.acting.control(writing, CloseInput())
    except (OutliveError, HttpRefusal, ClientDisconnect, asyncio.CancelledError):
        # Nothing appears: the command never reads an end of its input.
        await asyncio.shield(call.acting.cancel(writing, grace_s=2.0, note="The upload was not finished."))
        raise
    await call.engine.queries.wait(writing)
    path = f"{writing.record.cwd}/{name}"
    _check(writing, path)
    members = {"path": path, "bytes": written, "process_id": writing.process_id}
    return json_answer(members, 201)


def _file_name(text: str) -> str:
    """Return a name that leads nowhere but into its folder.

    Raises:
        InvalidRequest: It is none.
    """
    is_plain = text not in {".", ".."} and "/" not in text and text.isprintable()
    if not is_plain or len(text.encode("utf-8", "surrogateescape")) > 255:
        raise InvalidRequest("invalid_params", "query.name: no file can be called so.")
    return text


def _folder_of(process: Process) -> str:
    """Return a process's working folder as it is now; that of its start where it cannot be known.

    It is a default that the answer names, and the command that writes there has the caller's rights alone.
    """
    record = process.record
    if record.pid is None or record.is_ended:
        return record.cwd
    try:
        return os.readlink(f"/proc/{record.pid}/cwd")
    except OSError:
        return record.cwd


async def bounded(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a body's pieces.

    Raises:
        HttpRefusal: `body_too_large`.
    """
    left = MOST_BYTES
    async for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise _too_large()
        if piece:
            yield piece


def _too_large() -> HttpRefusal:
    return HttpRefusal("body_too_large", f"A file may have {MOST_BYTES} bytes.")


def _check(writing: Process, path: str) -> None:
    """Raise what went wrong.

    Raises:
        HttpRefusal: `file_exists`; `upload_failed`, with what the command has said.
    """
    code = writing.record.exit_code
    if code == 0:
        return
    if code == _EXISTS:
        raise HttpRefusal("file_exists", f"{path[:300]} is there already.")
    if code == _CUT:
        raise HttpRefusal("upload_failed", "Fewer bytes came than were announced.")
    said = writing.log.pread(1, _SHOWN_BYTES, 0).decode("utf-8", "replace").strip()
    raise HttpRefusal(
        "upload_failed", f"{path[:300]} was not written: {said or writing.record.error or code}"
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
