"""Permanent names of processes: `ProcessId`, sortable by time and never reused; and short ids, which a project gives.

Owns both formats: a ULID in lower case, and "p7" for the seventh process of a project. Never reads a clock or a random source: callers pass the results in.
"""

import re
from typing import NewType

ProcessId = NewType("ProcessId", str)

ID_LENGTH = 26
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u
_TO_INT = bytes.maketrans(
    _ALPHABET.encode(), b"0123456789abcdefghijklmnopqrstuv"
)  # the digits of int(text, 32)
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_OF_ANY_BYTE = bytes(ord(_ALPHABET[value & 31]) for value in range(256))
_has_form = re.compile("[0-7][0-9a-hjkmnp-tv-z]{25}").fullmatch
SHORT_LENGTH = 6  # the random end of an id; a thousand processes rarely share one
RANDOM_BYTES = 14  # of which `new_process_id` takes five bits each


def new_process_id(now_ns: int, randomness: bytes) -> ProcessId:
    """Compose an id from Unix nanoseconds and 14 random bytes, of which 70 bits are used; later microseconds sort later.

    The microseconds take ten of a ULID's 80 random bits, so processes that are started within one millisecond keep their order.
    """
    if len(randomness) != RANDOM_BYTES:
        raise AssertionError(f"a process id takes exactly {RANDOM_BYTES} random bytes")
    ms, micros = divmod(now_ns // 1000, 1000)
    # Every start makes one id: taking it digit by digit out of one large number was five times as slow.
    moment = (ms >> 40 & 255, ms >> 30 & 1023, ms >> 20 & 1023, ms >> 10 & 1023, ms & 1023, micros)
    return ProcessId("".join(map(_PAIRS.__getitem__, moment)) + randomness.translate(_OF_ANY_BYTE).decode())


def short_name(process_id: str) -> str:
    """Return what lists at the command line show, and what its verbs take: enough of the id's end to be typed."""
    return process_id[-SHORT_LENGTH:]


def id_from_bytes(raw: bytes) -> ProcessId:
    """Return the text form of a 16-byte id."""
    number = int.from_bytes(raw, "big")
    letters = [_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return ProcessId("".join(letters))


def id_to_bytes(process_id: str) -> bytes:
    """Return the 16-byte form of a text id.

    Raises:
        ValueError: The text is no process id.
    """
    if _has_form(process_id) is None:
        raise ValueError(f"not a process id: {process_id[:40]!r}")
    return int(process_id.encode().translate(_TO_INT), 32).to_bytes(16, "big")


def is_process_id(text: str) -> bool:
    """Return whether `text` has the form of a process id (and so is safe as a file name)."""
    return _has_form(text) is not None


# A number of 18 digits is below 2**63, which is what SQLite holds.
SHORT_ID_PATTERN = r"^[pP][1-9][0-9]{0,17}(?!\n)$"
_is_short = re.compile(SHORT_ID_PATTERN).fullmatch


def short_id(number: int) -> str:
    """Return what a project calls its process of that number: "p7"."""
    return f"p{number}"


def number_of(text: str) -> int | None:
    """Return the number that a short id stands for ("p7", "P7"); None for any other text."""
    return None if _is_short(text) is None else int(text[1:])
