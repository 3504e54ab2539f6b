"""What a process is called: `ProcessId`, sortable by time and never reused.

A short id, which a project gives; a name of its caller's.

Owns the three formats: a ULID in lower case, "p7" for the seventh process of a project, and "web", which
never looks like one of the others. Never reads a clock or a random source: callers pass the results in.
"""

import re
from typing import NewType

ProcessId = NewType("ProcessId", str)

PROCESS_VARIABLE = "OUTLIVE_PROCESS_ID"  # a command finds its process id in it
# And in this its span (OpenTelemetry, "Environment Variables as Context Propagation Carriers").
TRACE_VARIABLE = "TRACEPARENT"
ID_LENGTH = 26
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford base 32: no i, l, o, u
_TO_INT = bytes.maketrans(
    _ALPHABET.encode(), b"0123456789abcdefghijklmnopqrstuv"
)  # the digits of int(text, 32)
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_OF_ANY_BYTE = bytes(ord(_ALPHABET[value & 31]) for value in range(256))
PROCESS_ID_PATTERN = "[0-7][0-9a-hjkmnp-tv-z]{25}"
_has_form = re.compile(PROCESS_ID_PATTERN).fullmatch
SHORT_LENGTH = 6  # the random end of an id; a thousand processes rarely share one
RANDOM_BYTES = 14  # of which `new_process_id` takes five bits each


def new_process_id(now_ns: int, randomness: bytes) -> ProcessId:
    """Compose an id from Unix nanoseconds and 14 random bytes, of which 70 bits are used.

    Later microseconds sort later.

    The microseconds take ten of a ULID's 80 random bits, so processes that are started within one millisecond
    keep their order.
    """
    if len(randomness) != RANDOM_BYTES:
        raise AssertionError(f"a process id takes exactly {RANDOM_BYTES} random bytes")
    ms, micros = divmod(now_ns // 1000, 1000)
    # Every start makes one id: taking it digit by digit out of one large number was five times as slow.
    moment = (ms >> 40 & 255, ms >> 30 & 1023, ms >> 20 & 1023, ms >> 10 & 1023, ms & 1023, micros)
    return ProcessId("".join(map(_PAIRS.__getitem__, moment)) + randomness.translate(_OF_ANY_BYTE).decode())


def short_name(process_id: str) -> str:
    """Return what lists at the command line show, and what its verbs take: enough of the id's end to be
    typed.
    """
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


LEAST_END = 4  # characters of an id's end: fewer are the end of one among a few hundred processes by chance
_is_end = re.compile(f"[0-9a-hjkmnp-tv-z]{{{LEAST_END},{ID_LENGTH - 1}}}").fullmatch


def end_of_id(text: str) -> str | None:
    """Return what an id may end with, in lower case; None for a text that is the end of none, or of too
    many.
    """
    return None if _is_end(lower := text.lower()) is None else lower


# A DNS label's length, and what a file's name and a shell's word can hold without quotes.
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,62}(?!\n)$"
LAST = "@last"  # the newest start in the caller's project; no name begins with "@"
COMMAND_ID_PREFIX = "cmd_"
_is_named = re.compile(NAME_PATTERN).fullmatch
# A short id with any zeros, or a command's id. What lists show of an id may be a name as well ("server",
# "retry1"): where one id ends so, too, the two are told apart by asking (`engine.lookup`).
_is_like_an_id = re.compile(f"p[0-9]+|{COMMAND_ID_PREFIX}.*", re.IGNORECASE).fullmatch


def is_name(text: str) -> bool:
    """Return whether a caller may call a process so: a letter first, and nothing that an id looks like."""
    return _is_named(text) is not None and _is_like_an_id(text) is None
