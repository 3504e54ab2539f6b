"""Times as people write them: "90", "1.5s", "500ms", "5m", "2 hours", "7d".

Pure; every frontend reads them here.
"""

from collections.abc import Mapping
from types import MappingProxyType

# By the first letter of a unit, which people write in several ways; "ms" is the one that begins like another.
UNITS_S: Mapping[str, float] = MappingProxyType(
    {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
)
_WORDS = MappingProxyType(
    {
        "s": frozenset({"", "s", "sec", "secs", "second", "seconds"}),
        "m": frozenset({"m", "min", "mins", "minute", "minutes"}),
        "h": frozenset({"h", "hr", "hrs", "hour", "hours"}),
        "d": frozenset({"d", "day", "days"}),
        "ms": frozenset({"ms"}),
    }
)


def parse_duration(text: str) -> float:
    """Return the seconds that a text means; a number without a unit is seconds.

    Raises:
        ValueError: It is no time, or less than none.
    """
    number, unit = split_duration(text)
    if number is None:
        raise ValueError(f"{text[:20]!r} is no time: write seconds, or a unit as in 500ms, 90s, 5m, 2h, 1d")
    return number * UNITS_S[unit or "s"]


def split_duration(text: str) -> tuple[float | None, str]:
    """Return the number and the unit of a time, "" where it names none; None where it is no time."""
    word = text.strip().lower()
    digits = word.rstrip("abcdefghijklmnopqrstuvwxyz")
    letters = word[len(digits) :]
    unit = next((unit for unit, words in _WORDS.items() if letters in words), None)
    number = digits.strip()
    # Python reads "1_000", "٣" and "1e3" as numbers, too: none of them is meant here.
    if unit is None or not number.isascii() or not number.replace(".", "", 1).isdigit():
        return None, ""
    return float(number), unit if letters else ""
