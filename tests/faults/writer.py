"""The program that a storm runs: writes what its plan says, whatever happens around it, and ends as planned.

Run by path with a plan in JSON as its argument; standard library only. `content` is also what the storm
computes its expectation with, so a log is compared with what should have been written, byte by byte, without
any log.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator

_CHUNK = 65536


def content(seed: str, *, size: int, is_text: bool) -> Iterator[bytes]:
    """Yield `size` bytes that follow from the seed alone; text is lines of hexadecimal digits."""
    source = random.Random(seed)
    left = size
    while left > 0:
        chunk = source.randbytes(_CHUNK)
        if is_text:
            digits = chunk[: _CHUNK // 4].hex().encode()
            chunk = b"".join(digits[at : at + 63] + b"\n" for at in range(0, len(digits), 63))
        yield chunk[:left]
        left -= len(chunk)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _pieces(seed: str, chunks: Iterator[bytes], *, piece_bytes: int) -> Iterator[bytes]:
    """Cut into writes of random sizes up to `piece_bytes`."""
    sizes = random.Random(seed + "/sizes")
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            end = at + sizes.randint(1, piece_bytes)
            yield chunk[at:end]
            at = end


def main(plan: dict[str, object]) -> None:
    """Carry out a plan: {seed, out, err, text, piece, pause_s, end, begun}; `end` is an exit code or minus a
    signal.
    """
    seed = str(plan["seed"])
    if plan["begun"]:
        # One write behind the others (open(2), O_APPEND): whoever starts this a second time leaves a second
        # line.
        fd = os.open(str(plan["begun"]), os.O_WRONLY | os.O_APPEND)
        os.write(fd, f"{seed} {time.time_ns()}\n".encode())
        os.close(fd)
    is_text = bool(plan["text"])
    streams = []
    for fd, name in ((1, "out"), (2, "err")):
        chunks = content(f"{seed}/{name}", size=int(str(plan[name])), is_text=is_text)
        streams.append((fd, _pieces(f"{seed}/{name}", chunks, piece_bytes=int(str(plan["piece"])))))
    order = random.Random(seed + "/order")
    pause_s = float(str(plan["pause_s"]))
    while streams:
        fd, pieces = order.choice(streams)
        piece = next(pieces, None)
        if piece is None:
            streams.remove((fd, pieces))
            continue
        _write(fd, piece)
        if pause_s:
            time.sleep(pause_s)
    end = int(str(plan["end"]))
    if end < 0:
        signal.signal(-end, signal.SIG_DFL) if -end not in {signal.SIGKILL, signal.SIGSTOP} else None
        os.kill(os.getpid(), -end)
    os._exit(end)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
