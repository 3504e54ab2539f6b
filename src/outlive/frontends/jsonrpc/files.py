"""The methods about files that are copied: one for each of `operations.files.FILE_OPERATIONS`.

A piece of a file travels as it is, in a binary frame: behind the request that writes it, behind the answer
that has read it. Clients that send text frames only use base64.
"""

import base64
import binascii
from typing import Any, Literal

import msgspec

from outlive.core.errors import InvalidRequest
from outlive.core.file_words import PIECE_BYTES
from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Result
from outlive.operations.files import (
    FILE_OPERATIONS,
    FileAsked,
    FileClose,
    FileOpen,
    FileRead,
    FileWrite,
)


class ReadPieceParams(FileRead, kw_only=True, frozen=True):
    """`file_read`: in which form the bytes come."""

    encoding: Literal["base64", "binary"] = "base64"


class WritePieceParams(FileWrite, kw_only=True, frozen=True):
    """`file_write`: the bytes in base64, where the frame is text."""

    data: str = ""


async def _open(context: Context, params: FileOpen, label: str | None) -> Result:
    return Result(await context.engine.files.open(context.owner(label), params))


async def _close(context: Context, params: FileClose, label: str | None) -> Result:
    return Result(await context.engine.files.end(context.owner(label), params))


async def _ask(context: Context, params: FileAsked, label: str | None) -> Result:
    return Result(await context.engine.files.ask(context.owner(label), params))


async def _read(context: Context, params: ReadPieceParams, label: str | None) -> Result:
    asked = FileRead(copy=params.copy, name=params.name, offset=params.offset, limit=params.limit)
    members = dict(await context.engine.files.ask(context.owner(label), asked))
    data = members.pop("data")
    if params.encoding == "binary":
        return Result(members, payload=data)
    return Result({**members, "data": base64.b64encode(data).decode()})


async def _write(context: Context, params: WritePieceParams, label: str | None) -> Result:
    try:
        data = base64.b64decode(params.data, validate=True)
    except binascii.Error as error:
        raise InvalidRequest("invalid_params", f"data: not base64 ({error}).") from None
    members = {name: getattr(params, name) for name in FileWrite.__struct_fields__}
    return await _written(context, FileWrite(**members), data, label)


async def write_piece(context: Context, params: FileWrite, data: memoryview) -> Result:
    """Write bytes that came as they are, in a binary frame."""
    return await _written(context, params, data, None)


async def _written(
    context: Context, params: FileWrite, data: bytes | memoryview, label: str | None
) -> Result:
    if len(data) > PIECE_BYTES:
        raise InvalidRequest("invalid_params", f"A piece has at most {PIECE_BYTES} bytes.")
    return Result(await context.engine.files.ask(context.owner(label), params, data))


# What is not simply asked of a copy: another handler, and what it takes instead.
_OTHERS: dict[str, tuple[type[msgspec.Struct], Any]] = {
    "file_open": (FileOpen, _open),
    "file_close": (FileClose, _close),
    "file_read": (ReadPieceParams, _read),
    "file_write": (WritePieceParams, _write),
}


def _method(name: str, request: type[msgspec.Struct], answer: type[msgspec.Struct]) -> Method:
    shape, handler = _OTHERS.get(name, (request, _ask))
    # Many at once: on a long line a piece takes as long as a hundred.
    concurrency = Concurrency.LARGE if name == "file_read" else Concurrency.LONG
    return Method(name, shape, answer, handler, concurrency)


FILES = {name: _method(name, *shapes) for name, (_, *shapes) in FILE_OPERATIONS.items()}
