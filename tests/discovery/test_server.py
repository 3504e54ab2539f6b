"""Finding a server, waiting for one, and giving up."""

from pathlib import Path

import pytest

from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.discovery.server import Server
from outlive.kernel.locks import take_lock


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path))


def test_where_nobody_listens_nothing_is_dialled(layout: Layout) -> None:
    said: list[str] = []
    assert Server(layout, say=said.append).dial() is None
    assert said == []


def test_who_gives_up_waiting_starts_nothing_and_hears_so(layout: Layout) -> None:
    """The lock says that a server is on its way: there is only the waiting to give up."""
    said: list[str] = []
    asked = 0

    def is_abandoned() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    assert take_lock(layout.server_lock) is not None
    with pytest.raises(BackendUnavailable) as late:
        Server(layout, say=said.append).connect(is_abandoned=is_abandoned)
    assert late.value.code == "timeout"
    assert (asked, said) == (4, [])
