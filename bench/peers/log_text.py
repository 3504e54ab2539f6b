"""Writes SIZE bytes of text as programs write it, another one for each NUMBER: `python log_text.py NUMBER
SIZE`.

Three quarters are sources of this Python's library, the rest lines of a log with times and identifiers. So
words come again, as in real output, and identifiers do not. What is in none of it may be looked for:
`NOWHERE`, and `RARE` where it was added.
"""

import random
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

RARE = "a rare Zanzibar line qzvxkjwpf"
NOWHERE = "qjxzkvqwj"
_WORDS = (
    b"GET POST worker queue started finished timeout retry connection refused user session cache miss "
    b"hit INFO WARN ERROR"
).split()
_SOURCES = 0.75


def _sources(number: int) -> Iterator[bytes]:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    random.Random(number).shuffle(files)
    while True:
        for file in files:
            yield file.read_bytes()


def _log_lines(number: int) -> Iterator[bytes]:
    chance = random.Random(number)
    moment = 1_790_000_000.0 + number * 1000
    while True:
        moment += chance.random()
        said = b" ".join(chance.choices(_WORDS, k=7))
        yield b"%.3f pod-%d id=%016x %s in %d ms\n" % (
            moment,
            number,
            chance.getrandbits(64),
            said,
            chance.randrange(9000),
        )


def main(number: int, size: int) -> None:
    """Write it to stdout."""
    left = size
    for pieces, share in ((_sources(number), _SOURCES), (_log_lines(number), 1.0)):
        end = size - int(size * share)  # that is left behind this part
        while left > end:
            piece = next(pieces)[: left - end]
            sys.stdout.buffer.write(piece)
            left -= len(piece)
    sys.stdout.buffer.write(b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
