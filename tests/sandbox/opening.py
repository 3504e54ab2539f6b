"""Run inside of a sandbox: tries to open files that it is told of, in every way. Standard library only.

Its argument is a JSON object: `files`, paths; `pids`, processes whose places in /proc lead there. Prints as
JSON what succeeded.
"""

import json
import os
import sys
from collections.abc import Iterator


def _ways_to(path: str, pids: list[int]) -> Iterator[str]:
    yield path
    yield f"/proc/self/root{path}"
    for pid in pids:
        yield f"/proc/{pid}/root{path}"
        yield f"/proc/{pid}/cwd{path}"  # they work in /
        yield f"/proc/{pid}/task/{pid}/root{path}"


def _try(found: list[list[str]], what: str, path: str) -> None:
    flags = {"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR, "empty": os.O_WRONLY | os.O_TRUNC}
    try:
        if what in flags:
            os.close(os.open(path, flags[what] | os.O_NONBLOCK))
        elif what == "link":
            os.link(path, "linked")
        elif what == "rename":
            os.rename(path, "renamed")
        elif what == "remove":
            os.unlink(path)
        elif what == "make":
            os.close(os.open(f"{path}/made", os.O_WRONLY | os.O_CREAT))
        elif what == "symlink":
            os.symlink(path, "pointing")
            try:
                os.close(os.open("pointing", os.O_RDONLY))
            finally:
                os.unlink("pointing")
        elif what == "reopen":
            place = os.open(path, os.O_PATH)  # Landlock lets a place be named
            try:
                os.close(os.open(f"/proc/self/fd/{place}", os.O_RDONLY))
            finally:
                os.close(place)
    except OSError:
        return
    found.append([what, path])


def main() -> None:
    """Try each way to each."""
    told = json.loads(sys.argv[1])
    found: list[list[str]] = []
    for path in told["files"]:
        for way in _ways_to(path, told["pids"]):
            for what in ("read", "write", "both", "empty", "link", "rename", "remove", "symlink", "reopen"):
                _try(found, what, way)
    for path in told["folders"]:
        for way in _ways_to(path, told["pids"]):
            for what in ("make", "rename"):  # their names may be seen (docs/sandbox.md)
                _try(found, what, way)
    for pid in told["pids"]:
        for number in range(64):
            for what in ("read", "write"):
                _try(found, what, f"/proc/{pid}/fd/{number}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
