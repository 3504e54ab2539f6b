"""Files of a few bytes in pieces of a few: whatever an earlier copy has left, the same arrives."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.client.files.copier import Copier
from outlive.client.files.ends import LocalEnd
from outlive.client.files.stream import key_of
from outlive.client.runtime import run
from outlive.core.file_words import part_name
from outlive.files.denied import DeniedPaths
from outlive.files.root import FileRoot

_T = TypeVar("_T")
_PIECE, _STRETCH = 5, 15


class Here:
    """A runtime that does what blocks at once."""

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Do it."""
        return work()


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:  # noqa: ANN401 -- a fixture's iterator
    """Pieces and stretches of a few bytes."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("copier", "stream"):
            patch.setattr(f"outlive.client.files.{module}.PIECE_BYTES", _PIECE)
        patch.setattr("outlive.client.files.stream.DIGEST_BYTES", _STRETCH)
        yield


def _end(path: Path, *, writes: bool) -> LocalEnd:
    root = FileRoot(os.fsencode(path), DeniedPaths(), writes=writes)
    world: Any = Here()
    return LocalEnd(root=root, world=world, **root.opened())


def _kept(content: bytes, there: bytes) -> int:
    """Return how many bytes stay of what is there: whole stretches, as far as they are the same."""
    most = min(len(content), len(there))
    begins = range(0, most, _STRETCH)
    differing = (
        begin
        for begin in begins
        if content[begin : min(begin + _STRETCH, most)] != there[begin : min(begin + _STRETCH, most)]
    )
    return next(differing, most)


@pytest.mark.promise("S0.19.copy_resumed")
@given(
    st.binary(min_size=_PIECE + 1, max_size=70), st.integers(0, 90), st.integers(-1, 90), st.integers(-1, 14)
)
def test_a_file_goes_on_where_it_is_the_same_and_arrives_whole(
    content: bytes, left: int, flipped: int, stops_after: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "copy")
        source.write_bytes(content)
        end = _end(source, writes=False)
        entry = end.entry
        assert entry is not None
        part = Path(os.fsdecode(os.path.join(os.fsencode(folder), part_name(b"copy", key_of(entry)))))
        there = bytearray((content + b"more than there is" * 2)[:left])
        if 0 <= flipped < len(there):
            there[flipped] ^= 1
        part.write_bytes(there)
        part.chmod(0o600)
        seen = 0

        def stop(_bytes: int) -> None:
            nonlocal seen
            seen += 1
            if seen == stops_after:
                raise KeyboardInterrupt

        try:
            run(Copier(end, _end(target, writes=True), progress=stop).run(entry))
        except KeyboardInterrupt:
            assert not target.exists()
            there = bytearray(part.read_bytes())
        else:
            assert target.read_bytes() == content
            target.unlink()
            part.write_bytes(there)
            part.chmod(0o600)
        copier = Copier(end, _end(target, writes=True))
        run(copier.run(entry))
        assert target.read_bytes() == content
        assert copier.counts["sent_bytes"] == len(content) - _kept(content, bytes(there))
        assert sorted(os.listdir(folder)) == ["copy", "source"]
