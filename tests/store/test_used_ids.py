"""The ids of removed processes: they are known over a restart, damage costs no other one, and there is an end
to them.
"""

from pathlib import Path

import pytest

from outlive.core.errors import InvalidState
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.store.used_ids import RemovedIds

_IDS = [new_process_id(number * 10**9, bytes(RANDOM_BYTES)) for number in range(1, 12)]


def _known(ids: RemovedIds) -> list[ProcessId]:
    """Return which of all ids are refused."""
    found = []
    for one in _IDS:
        try:
            ids.check(one)
        except InvalidState:
            found.append(one)
    return found


def _opened(folder: Path, most: int = 3) -> RemovedIds:
    ids = RemovedIds(str(folder / "removed-ids"), most=most)
    ids.open()
    return ids


@pytest.mark.promise("S4.12.nodes.once")
def test_the_newest_are_known_also_to_the_next_server(tmp_path: Path) -> None:
    ids = _opened(tmp_path)
    for number, one in enumerate(_IDS, start=1):
        ids.add(one)
        ids.add(one)
        newest = _IDS[max(0, number - 3) : number]
        assert _known(ids) == _known(_opened(tmp_path)) == newest
    assert len((tmp_path / "removed-ids").read_text().split()) <= 2 * 3
    assert (tmp_path / "removed-ids").stat().st_mode & 0o777 == 0o600


def test_a_torn_line_costs_no_other_id(tmp_path: Path) -> None:
    (tmp_path / "removed-ids").write_bytes(f"{_IDS[0]}\n\xff{_IDS[1][:9]}".encode("latin-1"))
    ids = _opened(tmp_path)
    ids.add(_IDS[2])
    assert _known(_opened(tmp_path)) == [_IDS[0], _IDS[2]]


def test_what_the_disk_does_not_take_is_known_to_this_server(tmp_path: Path) -> None:
    """No process stays because of it."""
    ids = _opened(tmp_path / "missing")
    ids.add(_IDS[0])
    assert _known(ids) == [_IDS[0]]
