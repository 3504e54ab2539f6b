"""`OpenCopy`: a file or folder that a caller has opened to read it, or to write it, and what may be asked about it then."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from outlive.core.errors import InvalidRequest
from outlive.core.file_words import DIGEST_BYTES, is_compared_stretch
from outlive.core.process import Owner
from outlive.files.root import FileRoot
from outlive.operations.files import FileAsked, FileDigest, FileDrop, FileMake, FileRead, FileWrite

Members = Mapping[str, Any]


@dataclass(slots=True, kw_only=True, eq=False)
class OpenCopy:
    """One open copy: here it has a root, on a node the name that the node has given it.

    Lists and callers' bounds were judged for one direction (`writes`), and may refuse the other: each copy goes in its own only.
    """

    by: Owner
    details: Mapping[str, str | int | bool]
    writes: bool
    node: str = ""
    there: str = ""
    path: str = ""  # where it really lies, absolute; empty where a node of an older version does not say it
    root: FileRoot | None = None
    used_at: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def check_asked(self, asked: FileAsked) -> None:
        """Let pass what goes in this copy's direction.

        What lies in a folder that is written is shown, without its content: a caller that copies into it has to know what is there.

        Raises:
            InvalidRequest: It goes in the other one.
        """
        if self.writes and isinstance(asked, FileRead):
            text = "This copy was opened to be written: nothing is read in it."
            raise InvalidRequest("invalid_params", text, hint="Open another one: file_open without `write`.")
        if not self.writes and isinstance(asked, FileWrite | FileMake | FileDrop):
            text = "This copy was opened to be read: nothing is written in it."
            raise InvalidRequest("invalid_params", text, hint="Open another one: file_open with `write`.")

    def check_answered(self, asked: FileAsked, found: Members) -> None:
        """Let a digest pass of what is written that tells whether a file is the same, and nothing about its bytes one by one.

        An unfinished file (`key`) is digested by any stretch: only a caller that knows its source's size, and its time to the
        nanosecond, has its name.

        Raises:
            InvalidRequest: A stretch of the file would be read by it.
        """
        if not self.writes or not isinstance(asked, FileDigest) or asked.key:
            return
        if not is_compared_stretch(asked.offset, found["length"], found["size"]):
            text = f"Of a file that is to be written, all is digested, or stretches of {DIGEST_BYTES} bytes."
            hint = "Begin at a multiple of that, or end with the file. To read it: file_open without `write`."
            raise InvalidRequest("invalid_params", text, hint=hint)
