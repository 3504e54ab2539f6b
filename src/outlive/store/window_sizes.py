"""The sizes of a terminal's window over time: `sizes` in the process's folder, one line for each change.

An emulator that draws old output has to know how wide the terminal was. The server writes the file; a line that a crash has cut
is ignored. Blocking: for a thread.
"""

import os
from dataclasses import dataclass

_FILE = "sizes"
_MAX_BYTES = 64 * 1024  # some thousand changes; beyond that the newer half is kept


@dataclass(frozen=True, slots=True)
class WindowSize:
    """Rows and columns from an offset of the output on."""

    offset: int
    rows: int
    cols: int


def note_size(folder: str, size: WindowSize) -> None:
    """Append a change.

    Raises:
        OSError: The disk refuses it, or the folder is gone.
    """
    path = f"{folder}/{_FILE}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"%d %d %d\n" % (size.offset, size.rows, size.cols))
        is_long = os.fstat(fd).st_size > _MAX_BYTES
    finally:
        os.close(fd)
    # A window that is dragged by hand changes its size many times a second: the file must not grow for ever.
    if is_long:
        kept = read_sizes(folder)
        lines = b"".join(b"%d %d %d\n" % (one.offset, one.rows, one.cols) for one in kept[len(kept) // 2 :])
        with open(f"{path}.new", "wb") as file:
            file.write(lines)
        os.replace(f"{path}.new", path)


def read_sizes(folder: str) -> list[WindowSize]:
    """Return the changes, oldest first."""
    try:
        with open(f"{folder}/{_FILE}", "rb") as file:
            lines = file.read(2 * _MAX_BYTES).split(b"\n")
    except OSError:
        return []
    found = [line.split() for line in lines[:-1]]
    return [
        WindowSize(*map(int, words)) for words in found if len(words) == 3 and all(map(bytes.isdigit, words))
    ]
