"""What a process handle does with answers that take a real server half a minute to give."""

import pytest

from outlive.client.asyncio_runtime import AsyncioRuntime
from outlive.client.link import Link, Links
from outlive.client.messages import Ended, OutputMessage, OutputPiece
from outlive.client.process import AsyncProcess
from outlive.client.results import Completion, Output
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError, ProtocolViolation
from outlive.core.identity import ProcessId

pytestmark = pytest.mark.anyio

_ID = ProcessId("01m7ybywps7gsyjzmq1eandhcn")


class _FullPipe(Link):
    """A server whose process does not read at first: every other write waits with the keeper, as the server
    says.
    """

    def __init__(self) -> None:
        self.received = b""
        self._turn = self.pauses = 0

    async def write(self, process_id: str, data: memoryview, *, answer_s: float = 1.0) -> int:  # noqa: ARG002 -- as the link has it
        assert process_id == _ID
        piece = data[:65536]
        self._turn += 1
        match self._turn % 4:
            case 0:  # the keeper holds all that it takes already
                raise LimitExceeded("stdin_full", "It does not read.", details={"written_bytes": 0})
            case 1:
                self.received += piece[:1000]
                details = {"written_bytes": 400, "waiting_bytes": 600}
                raise LimitExceeded("stdin_full", "These bytes still wait for it.", details=details)
        self.received += piece
        return len(piece)

    async def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses += 1


class _OneLink(Links):
    """Links that are always the same one, which nothing closes."""

    def __init__(self, link: Link) -> None:
        self.shared = link

    def new(self, *, keeps_session: bool = False) -> Link:
        assert not keeps_session
        return self.shared

    async def drop(self, link: Link) -> None:
        assert link is self.shared


def _process(link: Link) -> AsyncProcess:
    return AsyncProcess(_ID, 1, links=_OneLink(link), link=link, world=AsyncioRuntime())


async def test_input_goes_on_behind_what_waits_for_a_process_that_does_not_read() -> None:
    """S0.19.write: nothing is left out, nothing is written twice, however often the pipe is full."""
    link, data = _FullPipe(), bytes(range(256)) * 2000
    await _process(link).write(data)
    assert link.received == data
    assert link.pauses


class _Telling(Link):
    """A link whose channel tells what a script says; an error is what the next `attach` gets."""

    def __init__(self, *script: OutputMessage | OutliveError) -> None:
        self.script = list(script)
        self.attached: list[str] = []
        self.rests = 0

    async def channel(self) -> "_Telling":  # type: ignore[override]
        return self

    async def attach(self, process_id: str, cursor: Cursor, *, answer_s: float, raw: bool = False) -> None:
        assert answer_s > 0
        assert not raw
        self.attached.append(f"{process_id}@{cursor}")
        if self.script and isinstance(self.script[0], OutliveError):
            raise self.script.pop(0)  # type: ignore[misc]

    async def next_message(self) -> OutputMessage:
        told = self.script.pop(0)
        assert not isinstance(told, OutliveError)
        return told

    def succeed(self) -> None:
        """Nothing counts here."""

    async def rest(self, reason: Exception) -> None:
        assert isinstance(reason, BackendUnavailable)
        self.rests += 1


def _ended(cursor: Cursor) -> Ended:
    return Ended(_ID, Completion(exit_code=0, exit_signal=None, error=None, cursor=cursor))


async def test_a_keeper_that_is_away_for_a_moment_is_waited_for() -> None:
    away = BackendUnavailable("keeper_unavailable", "Not now.")
    link = _Telling(away, away, OutputPiece(_ID, "stdout", b"x", 1), _ended(Cursor(1, 0)))
    items = [item async for item in _process(link).follow()]
    assert items == [Output("stdout", b"x", Cursor(1, 0))]
    assert (link.rests, link.attached) == (2, [f"{_ID}@0.0"] * 3)


async def test_an_end_behind_bytes_that_never_came_is_no_end() -> None:
    link = _Telling(_ended(Cursor(1, 0)))
    follow = _process(link).follow(BEGINNING)
    with pytest.raises(ProtocolViolation, match=r"ended at 1\.0"):
        await anext(follow)
    assert follow.completion is None
