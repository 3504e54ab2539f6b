"""What each service of the storm runs: `python service_body.py FOLDER NAME LINES EXIT_CODE`.

It holds a lock as long as it lives, so that a second one of its name is found out; notes when it begins and
ends; and prints numbered lines. EXIT_CODE -1: it never ends.
"""

import fcntl
import json
import os
import sys
import time

_LINE_S = 0.005


def _note(folder: str, name: str, **what: object) -> None:
    line = json.dumps({"pid": os.getpid(), "at": time.time(), **what}) + "\n"
    fd = os.open(f"{folder}/{name}.notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, line.encode())
    os.close(fd)


def main() -> int:
    """Live as one of the storm's services."""
    folder, name, lines, code = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    lock = os.open(f"{folder}/{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _note(folder, name, event="twice")
        return 99
    _note(folder, name, event="begin")
    for number in range(lines):
        os.write(1, f"{name} {number}\n".encode())
        time.sleep(_LINE_S)
    while code < 0:
        time.sleep(60)
    _note(folder, name, event="end")
    return code


if __name__ == "__main__":
    sys.exit(main())
