"""Signed session ids, on files alone: nobody makes one up, and damage costs sessions, never the server."""

import functools
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.layout import Layout
from outlive.frontends.mcp.http.sessions import McpSessions


def _opened(folder: Path) -> McpSessions:
    sessions = McpSessions(Layout(str(folder)))
    with ThreadPoolExecutor(1) as threads:  # a loop of its own, also for a test that runs in one
        threads.submit(anyio.run, sessions.open).result()
    return sessions


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> McpSessions:
    """Sessions of a folder of their own."""
    return _opened(tmp_path_factory.mktemp("sessions"))


@pytest.mark.promise("S4.1")
@given(place=st.integers(0, 67), character=st.characters(), cut=st.integers(0, 67))
def test_an_id_that_was_altered_is_unknown(
    sessions: McpSessions, place: int, character: str, cut: int
) -> None:
    real = sessions.begin("me", "2025-11-25").session_id
    altered = real[:place] + character + real[place + 1 :]
    assert (sessions.find("me", altered) is None) == (altered != real)
    assert sessions.find("me", real[:cut]) is None
    assert sessions.find("somebody else", real) is None


@pytest.mark.promise("S4.1")
@given(text=st.text())
def test_no_text_upsets_the_look_up(sessions: McpSessions, text: str) -> None:
    assert sessions.find("me", text) is None


@pytest.mark.promise("M.restart")
def test_an_id_is_known_to_the_next_server_until_it_is_ended(tmp_path: Path) -> None:
    first = _opened(tmp_path)
    kept, ended = first.begin("me", "2025-06-18"), first.begin("me", "2025-06-18")
    anyio.run(first.end, ended)
    second = _opened(tmp_path)
    assert second.find("me", kept.session_id) == kept
    assert second.find("me", ended.session_id) is None


@pytest.mark.promise("M.restart", "S4.1")
async def test_many_ended_sessions_are_forgotten_and_none_of_them_comes_back(tmp_path: Path) -> None:
    """The file stays small.

    What began after the forgotten ones lives on, also where the clock was set back.
    """
    seconds = [*range(1_800_000_000, 1_800_000_101), 1]
    sessions = McpSessions(Layout(str(tmp_path)), max_ended=10, clock=lambda: seconds.pop(0))
    await sessions.open()
    oldest = sessions.begin("me", "2025-11-25")
    ended = []
    for _ in range(100):
        ended.append(sessions.begin("me", "2025-11-25"))
        await sessions.end(ended[-1])
        assert (tmp_path / "mcp.ended").stat().st_size < 12 * 40
    assert seconds == [1]
    newest = sessions.begin("me", "2025-11-25")
    again = _opened(tmp_path)
    for known in (sessions, again):
        assert [one for one in ended if known.find("me", one.session_id)] == []
        assert known.find("me", oldest.session_id) is None  # the price: it began before them
        assert known.find("me", newest.session_id) == newest


@pytest.mark.promise("M.restart")
@settings(deadline=None, max_examples=30)
@given(junk=st.binary(max_size=40), key=st.binary(max_size=40))
def test_damaged_files_cost_sessions_and_nothing_else(junk: bytes, key: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mcp.ended").write_bytes(junk)
        (folder / "mcp.key").write_bytes(key)
        sessions = _opened(folder)
        session = sessions.begin("me", "2025-11-25")
        assert sessions.find("me", session.session_id) == session
        anyio.run(functools.partial(sessions.end, session))
        assert _opened(folder).find("me", session.session_id) is None
