"""Where `logs --since` begins: a cursor, or a moment ("10m" ago, "14:30", "2026-01-31T12:00"). Pure."""

from datetime import datetime, time, timedelta

from outlive.core.cursor import Cursor
from outlive.core.durations import parse_duration
from outlive.core.errors import InvalidRequest

_HINT = "For example 10m, 2h, 14:30, 2026-01-31T12:00, 2026-01-31T12:00Z, or the cursor 1024.0."


def parse_since(text: str, now: datetime) -> Cursor | datetime:
    """Return the cursor, or the aware moment, that a word means; `now` is aware and says what local time is.

    Raises:
        InvalidRequest: It means neither.
    """
    word = text.strip()
    if word and not word.strip("0123456789."):
        return Cursor.parse(word)
    moment = _ago(word, now) or _time_of_day(word, now) or _date(word, now)
    if moment is None:
        raise InvalidRequest("invalid_params", f"--since {text[:60]!r} is no time and no cursor.", hint=_HINT)
    return moment


def _ago(word: str, now: datetime) -> datetime | None:
    try:
        return now - timedelta(seconds=parse_duration(word.removesuffix(" ago")))
    except (ValueError, OverflowError):
        return None


def _time_of_day(word: str, now: datetime) -> datetime | None:
    """Return the last moment at which a clock here has shown this."""
    try:
        shown = time.fromisoformat(word)
    except ValueError:
        return None
    if ":" not in word or shown.tzinfo is not None:
        return None
    moment = datetime.combine(now.date(), shown, now.tzinfo)
    return moment if moment <= now else moment - timedelta(days=1)


def _date(word: str, now: datetime) -> datetime | None:
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    # Without a zone it is meant as clocks here show it: summer and winter may differ from `now`.
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
