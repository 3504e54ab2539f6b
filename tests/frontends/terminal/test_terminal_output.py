"""Where a viewer begins and what it is sent next: any writes, turns and reconnects give the same bytes."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.frontends.terminal import terminal_output as showing_module
from outlive.frontends.terminal.terminal_output import HISTORY_BYTES, Flow, TerminalOutput, newest_history
from outlive.protocols.keeper import Flags, Phase
from outlive.protocols.terminal_messages import Notice, Where
from outlive.protocols.websocket_frames import TEXT, split_frames
from tests.frontends.jsonrpc.following import WrittenProcess


@contextmanager
def _terminal(stdio: str = "pty") -> Iterator[WrittenProcess]:
    # Hypothesis runs many examples in one test: each needs a folder of its own.
    with tempfile.TemporaryDirectory() as folder:
        yield WrittenProcess(Path(folder), stdio=stdio)


class _Screen:
    """Takes turns of a `TerminalOutput` and reads its frames as a client does."""

    def __init__(
        self,
        written: WrittenProcess,
        cursor: Cursor = BEGINNING,
        *,
        controlled: bool = True,
        flow: Flow | None = None,
    ) -> None:
        self.ends = 0
        self.output = b""
        self.messages: list[dict[str, Any]] = []
        process = written.process
        self.showing = TerminalOutput(
            process, process.log, cursor, is_controlled=controlled, flow=flow or Flow(), over=self._over
        )

    def _over(self) -> None:
        self.ends += 1

    def turn(self) -> bool:
        frames, has_more = self.showing.turn()
        for kind, payload in split_frames(frames):
            if kind == TEXT:
                self.messages.append(json.loads(payload))
            else:
                self.output += payload
        return has_more

    def turns(self) -> None:
        while self.turn():
            pass

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.messages]


_step = st.one_of(st.binary(min_size=1, max_size=300), st.sampled_from(["turn", "reconnect", "where"]))


@pytest.mark.promise("T.resume")
@settings(deadline=None)
@given(steps=st.lists(_step, max_size=30), controlled=st.booleans())
def test_any_writes_turns_and_reconnects_give_every_byte_once(
    steps: list[bytes | str], *, controlled: bool
) -> None:
    with _terminal() as written:
        everything, taken = b"", b""
        screen = _Screen(written, controlled=controlled)
        for step in steps:
            if isinstance(step, bytes):
                everything += step
                written.write(step)
            elif step == "turn":
                screen.turn()
            elif step == "where":
                screen.showing.obey(Where())
                screen.turn()
                if controlled:
                    assert screen.messages[-1] == {
                        "type": "cursor",
                        "cursor": f"{len(taken + screen.output)}.0",
                    }
            else:
                taken += screen.output
                screen = _Screen(written, Cursor(len(taken), 0), controlled=controlled)
        written.end(3)
        screen.turns()
        assert taken + screen.output == everything
        assert screen.showing.is_over
        assert screen.ends == 1
        assert screen.kinds[-2:] == (["exited", "closed"] if controlled else [])
        assert screen.kinds.count("exited") == int(controlled)


def test_a_turn_is_bounded() -> None:
    with _terminal() as written:
        written.write(b"x" * 1_000_000)
        screen = _Screen(written)
        assert screen.turn()
        assert 0 < len(screen.output) <= showing_module._TURN_BYTES
        screen.turns()
        assert len(screen.output) == 1_000_000
        assert 1 <= screen.kinds.count("cursor") <= 1_000_000 // showing_module._REPORTED_BYTES


def test_a_released_range_and_what_never_reached_the_disk_are_gaps() -> None:
    with _terminal() as written:
        written.write(b"a" * 5000)
        written.release(1000, 4000)
        screen = _Screen(written)
        screen.turns()
        assert screen.output == b"a" * 2000
        assert screen.messages == [
            {"type": "gap", "stream": "stdout", "from": 1000, "to": 4000, "cursor": "4000.0"}
        ]
        written._sizes[0] += 700  # counted, and lost with the machine
        written.end(0)
        screen.turns()
        assert screen.messages[1] == {
            "type": "gap",
            "stream": "stdout",
            "from": 5000,
            "to": 5700,
            "cursor": "5700.0",
        }
        assert screen.kinds == ["gap", "gap", "exited", "closed"]


@pytest.mark.parametrize("controlled", [True, False])
def test_what_descendants_write_is_shown_to_who_hears_of_the_end(*, controlled: bool) -> None:
    with _terminal() as written:
        written.write(b"own ")
        written.end(0, is_open=True)
        screen = _Screen(written, controlled=controlled)
        screen.turns()
        assert screen.showing.is_completed
        assert screen.showing.is_over == (not controlled)
        if not controlled:
            return
        written.write(b"later", told=False)
        written.tell(Phase.DONE, flags=Flags.OUT_OPEN)
        screen.turns()
        assert (screen.output, screen.kinds) == (b"own later", ["exited"])
        written.end(0)
        screen.turns()
        assert screen.kinds == ["exited", "closed"]


def test_two_streams_are_followed_by_their_cursor() -> None:
    with _terminal("pipes") as written:
        written.write(b"out")
        written.write(b"err", 1)
        screen = _Screen(written)
        screen.turns()
        assert sorted(screen.output) == sorted(b"outerr")
        assert screen.messages == [{"type": "cursor", "cursor": "3.3"}]
        screen.turns()
        assert len(screen.messages) == 1


@pytest.mark.promise("T.slow")
def test_what_waits_to_be_said_is_bounded() -> None:
    with _terminal() as written:
        screen = _Screen(written)
        for number in range(1000):
            screen.showing.notice(Notice(reason=f"r{number}", message="m", about="input"))
            screen.showing.obey(Where())
        screen.turn()
        assert screen.kinds.count("notice") == 16
        assert screen.kinds.count("cursor") == 1
        plain = _Screen(written, controlled=False)
        plain.showing.notice(Notice(reason="r", message="m", about="input"))
        plain.showing.obey(Where())
        assert plain.turn() is False
        assert plain.messages == []
        assert (plain.showing.has_partial, plain.showing.show_partial()) == (False, b"")


_LINES = b"".join(b"\x1b[3%dmline %06d\x1b[0m\r\n" % (number % 8, number) for number in range(40_000))


@pytest.mark.promise("T.begin")
@pytest.mark.parametrize(
    "released", [None, (10, 200_000), (10, len(_LINES) - 1000), (len(_LINES) - 1000, len(_LINES) - 500)]
)
def test_history_begins_at_a_line(tmp_path: Path, released: tuple[int, int] | None) -> None:
    written = WrittenProcess(tmp_path, stdio="pty")
    written.write(_LINES)
    if released is not None:
        written.release(*released)
    begin = newest_history(written.process.log).stdout
    wanted = len(_LINES) - HISTORY_BYTES
    assert _LINES[begin - 1 : begin] == b"\n"
    behind = wanted if released is None or not released[0] < wanted < released[1] else released[1]
    assert behind <= begin < behind + 100


def test_without_output_it_is_the_beginning(tmp_path: Path) -> None:
    assert newest_history(WrittenProcess(tmp_path, stdio="pty").process.log) == BEGINNING
