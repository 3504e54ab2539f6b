"""POST /v1/processes/{process_id}/files: a file from the caller into a process's working folder, or another
one.

A command of the caller's writes it, `sh` with a few lines, in the profile of the process that it is for:
policy, sandbox, umask, audit log and the list of processes see an upload as they see any command, so that
nothing can be written by it that a command could not. The body streams through the command's input to the
disk.

The file is made under a name of its own with O_EXCL, mode 0600, and gets its name when all of it is there: by
a hard link, which never replaces anything and follows no symbolic link, or with `replace` by a rename, which
replaces a link itself.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from typing import cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from outlive.core.controls import CloseInput
from outlive.core.errors import InvalidRequest, OutliveError
from outlive.engine import Process
from outlive.frontends.rest.problems import HttpRefusal
from outlive.frontends.rest.routes import RestCall, json_answer
from outlive.protocols.rest.requests import StartRequest, UploadParameters

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
