"""How much of a file a copy holds, counted at ends that only pretend to have gigabytes."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from outlive.client.files.copier import Copier
from outlive.client.files.ends import Pending
from outlive.client.runtime import run
from outlive.core.errors import InvalidState
from outlive.core.file_words import PIECE_BYTES

Members = Mapping[str, Any]
_SIZE = 300 * PIECE_BYTES + 1
_ZEROS = bytes(PIECE_BYTES)
_FILE = {"name": "", "kind": "file", "size": _SIZE, "mode": 0o600, "mtime_ns": 1, "target": None}


class Count:
    """How many pieces are under way, and how many were at most."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def begin(self) -> None:
        """One more."""
        self.now += 1
        self.most = max(self.most, self.now)


class Counted:
    """A piece that is under way until its result is taken."""

    def __init__(self, count: Count, answer: Members) -> None:
        count.begin()
        self._count, self._answer = count, answer

    async def __call__(self) -> Members:
        """Count it no more."""
        self._count.now -= 1
        return self._answer


class PretendedEnd:
    """An end whose file is all zeros."""

    def __init__(self, entry: Members | None, count: Count, *, lies: bool = False) -> None:
        self.entry, self._count, self._lies = entry, count, lies
        self.machine = ""
        self.folders: Sequence[str] = ()
        self.there = 0
        self.made: list[str] = []
        self.dropped = 0

    async def begin(self, method: str, data: bytes = b"", /, **members: object) -> Pending:
        """Do what is asked of a file in one copy."""
        return getattr(self, f"_{method}")(data, **members)  # type: ignore[no-any-return] # tests name them

    def _file_read(self, _data: bytes, *, name: str, offset: int, limit: int) -> Pending:
        assert limit <= PIECE_BYTES
        data = _ZEROS if limit == PIECE_BYTES else bytes(limit)
        return Counted(self._count, {"size": _SIZE, "mtime_ns": 1, "data": data, "name": name, "at": offset})

    def _file_digest(
        self, _data: bytes, *, name: str, length: int, offset: int = 0, key: str = ""
    ) -> Pending:
        hashed = hashlib.sha256(b"" if self._lies else bytes(length)).hexdigest()
        size = self.there if key else _SIZE
        return Counted(
            Count(), {"size": size, "length": length, "sha256": hashed, "name": name, "at": offset}
        )

    def _file_write(self, data: bytes, *, name: str, key: str, offset: int) -> Pending:
        assert offset == self.there
        self.there += len(data)
        return Counted(self._count, {"size": self.there, "name": name, "key": key})

    def _file_make(self, _data: bytes, *, name: str, kind: str, key: str, seal: Members) -> Pending:
        self.made.append(kind)
        return Counted(Count(), {"entry": (name, key, seal)})

    def _file_drop(self, _data: bytes, *, name: str, key: str) -> Pending:
        self.dropped += len(name + key) > 0
        return Counted(Count(), {"done": True})

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.promise("S0.19.copy_bounds")
def test_a_large_file_has_a_bounded_number_of_pieces_under_way() -> None:
    count = Count()
    source, target = PretendedEnd(_FILE, count), PretendedEnd(None, count)
    copier = Copier(source, target)
    run(copier.run(_FILE))
    assert (target.there, copier.counts["sent_bytes"], target.made) == (_SIZE, _SIZE, ["file"])
    assert 20 <= count.most <= 24  # a long line is full, and memory is not
    assert count.now == 0


@pytest.mark.promise("S0.19.copy_resumed")
def test_a_file_that_arrives_otherwise_gets_no_name() -> None:
    source, target = PretendedEnd(_FILE, Count()), PretendedEnd(None, Count(), lies=True)
    with pytest.raises(InvalidState) as refusal:
        run(Copier(source, target).run(source.entry or {}))
    assert refusal.value.code == "file_changed"
    assert (target.made, target.dropped) == ([], 1)


@pytest.mark.promise("S0.19.copy_wall")
@pytest.mark.parametrize("kind", ["link", "other"])
def test_a_source_that_is_said_to_be_a_link_or_device_makes_nothing(kind: str) -> None:
    entry = {**_FILE, "kind": kind, "size": 0, "target": "/etc"}
    source, target = PretendedEnd(entry, Count()), PretendedEnd(None, Count())
    with pytest.raises(InvalidState) as refusal:
        run(Copier(source, target).run(source.entry or {}))
    assert refusal.value.code == "file_failed"
    assert (target.made, target.there) == ([], 0)
