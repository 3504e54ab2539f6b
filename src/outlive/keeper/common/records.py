"""What a process folder's records tell the keeper: who the command is, and how it ended."""

from outlive.keeper.common.files import read_small
from outlive.protocols.frames import ExitRecord, PidRecord, decode_end, decode_exit, decode_pid


def read_pid(folder: str) -> PidRecord | None:
    """Return the command's identity; None when it was not recorded (yet)."""
    return decode_pid(read_small(f"{folder}/pid") or b"")


def read_end(folder: str) -> ExitRecord | None:
    """Return how the command ended: the shim's line in `pid`, or else `exit`; None when nobody recorded it."""
    try:
        ended = decode_end(read_small(f"{folder}/pid") or b"")
    except ValueError:
        ended = None
    return ended or read_exit(f"{folder}/exit")


def read_exit(path: str) -> ExitRecord | None:
    """Return an exit record that has a file of its own, or a note; None when there is none."""
    try:
        return decode_exit(read_small(path) or b"")
    except ValueError:
        return None
