"""What is asked of files over REST, by paths that name a machine and a file there. Pure."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.errors import InvalidRequest
from outlive.operations.files import Place, ProjectFolder

_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})", re.ASCII)


class FileParameters(msgspec.Struct, kw_only=True, frozen=True):
    """A file or folder of a machine."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            # PATH_MAX; more would not fit into an address whose bytes are three characters each
            max_length=4096,
            description="Its path; a relative one begins in the process's folder, or in the home folder.",
        ),
    ]
    place: Place = "local"
    project: ProjectFolder = ""


class FolderParameters(FileParameters, kw_only=True, frozen=True):
    """What to show of a folder."""

    after: Annotated[str, Meta(max_length=1024, description="Entries behind this name.")] = ""


class ContentParameters(FileParameters, kw_only=True, frozen=True):
    """Which part of a file."""

    range: Annotated[
        str,
        Meta(
            max_length=60,
            description="One range of bytes: `bytes=100-` for the rest of a file that came halfway.",
            extra_json_schema={"in": "header"},
        ),
    ] = ""
    if_range: Annotated[
        str,
        Meta(
            max_length=200,
            description="The `ETag` that came with what you have: of another file by now, all is sent.",
            extra_json_schema={"in": "header"},
        ),
    ] = ""


class NewContentParameters(FileParameters, kw_only=True, frozen=True):
    """What a new file is to be."""

    mode: Annotated[str, Meta(pattern="^[0-7]{3}$", description="Its permissions.")] = "644"
    sha256: Annotated[
        str, Meta(pattern="^([0-9a-f]{64})?$", description="It gets its name only if it has this digest.")
    ] = ""


def range_of(text: str, size: int) -> tuple[int, int] | None:
    """Return where a range of a file of `size` bytes begins and ends (exclusive); None where none is asked
    for.

    Raises:
        InvalidRequest: It is no single range, or lies behind the file's end (RFC 9110, section 14.2: any may
        be refused).
    """
    if not text:
        return None
    found = _RANGE.fullmatch(text)
    if found is None or not (found[1] or found[2]):
        raise InvalidRequest("invalid_params", "header.range: one range is understood, as bytes=100-199.")
    if not found[1]:
        return max(0, size - int(found[2])), size
    begin, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if begin > size or end < begin:
        raise InvalidRequest("invalid_params", f"header.range: the file has {size} bytes.")
    return begin, end
