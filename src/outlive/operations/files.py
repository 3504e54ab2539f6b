"""Files of a machine that are copied from it or to it: what may be asked, the same at every door. Pure.

A copy is opened once (`FileOpen`): then it is decided whether the caller may, and the audit log has it.
Everything else is about a name below what was opened, in pieces of bounded size, and may be repeated. The
copying itself is its caller's (`client.files`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.core.file_words import DIGEST_BYTES, KEY_PATTERN, PIECE_BYTES, FileKind
from outlive.operations.answers import AnswerMembers

_MOST_PATH = (
    16384  # characters: PATH_MAX is 4096 bytes, and a byte takes three characters at most (`core.file_words`)
)

FileName = Annotated[
    str,
    Meta(
        max_length=_MOST_PATH,
        description=(
            "A name below what was opened, '' for that itself; a byte that is no UTF-8 is NUL and "
            "two hex digits."
        ),
    ),
]
Place = Annotated[
    str,
    Meta(
        max_length=256,
        description=(
            "`local` (the server's machine), a node, or a process: the machine or container where that runs."
        ),
    ),
]
NamingFolder = Annotated[
    str, Meta(max_length=4096, description="The folder in which short ids and names count.")
]
CopyName = Annotated[str, Meta(min_length=1, max_length=64, description="What `file_open` has returned.")]
PartKey = Annotated[str, Meta(pattern=KEY_PATTERN, description="Of an unfinished file: which source it has.")]
NoKey = Annotated[
    str, Meta(pattern=r"^([0-9a-f]{16})?$", description="Of an unfinished file, '' where none is meant.")
]
Offset = Annotated[int, Meta(ge=0, le=2**62)]
# A time as stat(2) has it: before 1970 it is below 0.
TimeNs = Annotated[int, Meta(ge=-(2**62), le=2**62, description="Nanoseconds since 1970.")]
Mode = Annotated[
    int,
    Meta(
        ge=0, le=0o1777, description="Permissions, as a number; of a folder of all users with its sticky bit."
    ),
]


class FileOpen(msgspec.Struct, kw_only=True, frozen=True):
    """A file or folder that is to be copied, or what is to become one."""

    path: Annotated[
        str,
        Meta(
            max_length=_MOST_PATH,
            description=(
                "On that machine; a relative one begins in the process's folder, or in the home folder."
            ),
        ),
    ]
    place: Place = "local"
    write: Annotated[bool, Meta(description="It is to be written.")] = False
    project: NamingFolder | None = None


class FileRequest(msgspec.Struct, kw_only=True, frozen=True):
    """Something about a name in an open copy."""

    copy: CopyName
    name: FileName = ""


class FileLook(FileRequest, kw_only=True, frozen=True):
    """What has that name."""


class FileListing(FileRequest, kw_only=True, frozen=True):
    """Some entries of a folder."""

    after: Annotated[str, Meta(max_length=1024, description="Those behind this name.")] = ""


class FileRead(FileRequest, kw_only=True, frozen=True):
    """A piece of a file."""

    offset: Offset = 0
    limit: Annotated[int, Meta(ge=1, le=PIECE_BYTES, description="Bytes.")] = PIECE_BYTES


class FileDigest(FileRequest, kw_only=True, frozen=True):
    """The SHA-256 of a stretch of a file, or of an unfinished one."""

    offset: Offset = 0
    length: Annotated[int, Meta(ge=0, le=DIGEST_BYTES)] = DIGEST_BYTES
    key: NoKey = ""


class FileSeal(msgspec.Struct, kw_only=True, frozen=True):
    """What a file must be to get its name, and what it gets with it."""

    size: Offset
    mtime_ns: TimeNs
    mode: Mode = 0o600
    sha256: (
        Annotated[
            str, Meta(pattern=r"^[0-9a-f]{64}$", description="Null: its stretches were compared already.")
        ]
        | None
    ) = None


class FileWrite(FileRequest, kw_only=True, frozen=True):
    """A piece of an unfinished file."""

    key: PartKey
    offset: Offset = 0
    cut: Annotated[bool, Meta(description="What is there from the offset on goes before.")] = False
    seal: Annotated[FileSeal | None, Meta(description="This is the last piece: the file gets its name.")] = (
        None
    )


class FileMake(FileRequest, kw_only=True, frozen=True):
    """A file that is whole now, a folder, a symbolic link; or what these become last."""

    kind: Annotated[
        Literal["file", "folder", "link", "settled"],
        Meta(
            description=(
                "file: the unfinished one gets its name; folder: made, to be filled; settled: a "
                "folder or file gets mode and time."
            )
        ),
    ]
    key: NoKey = ""
    seal: Annotated[FileSeal | None, Meta(description="For all but a folder that is to be filled.")] = None
    target: Annotated[str, Meta(max_length=_MOST_PATH, description="Where a link leads.")] = ""

    def __post_init__(self) -> None:
        """Require what the kind needs."""
        if self.kind != "folder" and self.seal is None:
            raise ValueError(f"seal: a {self.kind} needs it")
        if self.kind == "file" and not self.key:
            raise ValueError("key: a file needs it")
        if (self.kind == "link") != bool(self.target):
            raise ValueError("target: links have one, and nothing else")


class FileDrop(FileRequest, kw_only=True, frozen=True):
    """An unfinished file that is not wanted any more."""

    key: PartKey


class FileClose(msgspec.Struct, kw_only=True, frozen=True):
    """A copy that is done, or given up."""

    copy: CopyName


FileAsked = FileLook | FileListing | FileRead | FileDigest | FileWrite | FileMake | FileDrop


class FileView(AnswerMembers, kw_only=True, frozen=True):
    """A file, folder or link."""

    name: str
    kind: Annotated[FileKind, Meta(description="other: a socket, FIFO or device, which is not copied.")]
    size: Annotated[int, Meta(description="Bytes of a file, else 0.")]
    mode: Annotated[int, Meta(description="Permissions, as a number.")]
    mtime_ns: Annotated[int, Meta(description="When it was changed, in nanoseconds since 1970.")]
    target: Annotated[str | None, Meta(description="Where a link leads.")] = None
    identity: Annotated[
        str | None, Meta(description="Device and inode: on one machine the same for the same file or folder.")
    ] = None


class FileOpened(AnswerMembers, kw_only=True, frozen=True):
    """An open copy."""

    copy: Annotated[str, Meta(description="Names it in every further request.")]
    place: Annotated[str, Meta(description="The machine: `local` or a node.")]
    entry: Annotated[FileView | None, Meta(description="What is there; null where nothing is.")]
    path: Annotated[str, Meta(description="Where it really lies there: absolute, with links followed.")]
    machine: Annotated[
        str, Meta(description="Of which boot of a machine the identities are, '' where that is not known.")
    ] = ""
    folders: Annotated[
        tuple[str, ...],
        Meta(
            description=(
                "To write: the identities of it, if it is a folder, and of the folders in which it "
                "lies, innermost first."
            )
        ),
    ] = ()


class FileFound(AnswerMembers, kw_only=True, frozen=True):
    """What has a name, null where nothing has."""

    entry: FileView | None


class FilePage(AnswerMembers, kw_only=True, frozen=True):
    """Entries of a folder, in the order of their names' bytes."""

    entries: list[FileView]
    after: Annotated[str | None, Meta(description="Where the next page begins; null at the end.")]


class FilePiece(AnswerMembers, kw_only=True, frozen=True):
    """A piece of a file; nothing at its end. The bytes come with it."""

    size: Annotated[int, Meta(description="Of the whole file, when the piece was read.")]
    mtime_ns: int
    identity: Annotated[str | None, Meta(description="As an entry has it.")] = None
    data: Annotated[
        str, Meta(description="The bytes in base64; absent in a binary answer, which has them as they are.")
    ] = ""


class FileSum(AnswerMembers, kw_only=True, frozen=True):
    """A SHA-256, of how many bytes, and the size of the file."""

    size: int
    length: int
    sha256: str


class FileWritten(AnswerMembers, kw_only=True, frozen=True):
    """How much of the unfinished file is there; of a file that has got its name, all of it."""

    size: int


class FileDone(AnswerMembers, kw_only=True, frozen=True):
    """That it was done."""

    done: Literal[True] = True


class FolderPage(FilePage, kw_only=True, frozen=True):
    """What a path leads to, on which machine, and some entries where that is a folder."""

    place: str
    entry: FileView


class NewFile(AnswerMembers, kw_only=True, frozen=True):
    """A file that was written, and its digest."""

    place: str
    entry: FileView
    sha256: str


# What an operation is for, what it takes, and what it answers with.
FILE_OPERATIONS: Mapping[str, tuple[str, type[msgspec.Struct], type[msgspec.Struct]]] = MappingProxyType(
    {
        "file_open": (
            "Open a file or folder of a machine, for a copy from it or to it.",
            FileOpen,
            FileOpened,
        ),
        "file_look": ("Say what has a name in an open copy.", FileLook, FileFound),
        "file_list": ("List a folder's entries, a page at a time.", FileListing, FilePage),
        "file_read": ("Return a piece of a file.", FileRead, FilePiece),
        "file_digest": (
            "Return the SHA-256 of a stretch of a file, or of an unfinished one.",
            FileDigest,
            FileSum,
        ),
        "file_write": (
            "Write a piece of an unfinished file; repeated, it does the same.",
            FileWrite,
            FileWritten,
        ),
        "file_make": ("Give a finished file its name, or make a folder or link.", FileMake, FileFound),
        "file_drop": ("Remove an unfinished file.", FileDrop, FileDone),
        "file_close": ("Close a copy.", FileClose, FileDone),
    }
)
METHOD_OF: Mapping[type[msgspec.Struct], str] = MappingProxyType(
    {request: name for name, (_, request, _) in FILE_OPERATIONS.items()}
)
