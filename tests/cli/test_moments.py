"""What `logs --since` understands."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from outlive.cli.moments import parse_since
from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest

_HERE = timezone(timedelta(hours=2))
_NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=_HERE)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", Cursor(0, 0)),
        ("1024.7", Cursor(1024, 7)),
        ("10m", _NOW - timedelta(minutes=10)),
        ("10m ago", _NOW - timedelta(minutes=10)),
        ("1.5h", _NOW - timedelta(minutes=90)),
        ("7d", _NOW - timedelta(days=7)),
        ("11:30", datetime(2026, 1, 31, 11, 30, tzinfo=_HERE)),
        ("12:30:15", datetime(2026, 1, 30, 12, 30, 15, tzinfo=_HERE)),
        ("2026-01-30", datetime(2026, 1, 30, tzinfo=_HERE)),
        ("2026-01-31T11:00", datetime(2026, 1, 31, 11, tzinfo=_HERE)),
        ("2026-01-31 11:00", datetime(2026, 1, 31, 11, tzinfo=_HERE)),
        ("2026-01-31T11:00:00Z", datetime(2026, 1, 31, 11, tzinfo=UTC)),
    ],
)
def test_cursors_spans_and_times_are_told_apart(text: str, meant: object) -> None:
    assert parse_since(text, _NOW) == meant


@pytest.mark.parametrize(
    "text", ["", " ", "yesterday", "10x", "1.2.3", "25:00", "99999999999999d", "2026-13-01"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_since(text, _NOW)
