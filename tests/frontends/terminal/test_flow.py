"""How much a viewer is sent: any writes, acknowledgements and bounds keep it within them, and every byte is
shown or counted as skipped.
"""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING
from outlive.frontends.terminal.terminal_output import Flow, TerminalOutput
from outlive.protocols.websocket_frames import TEXT, split_frames
from tests.frontends.jsonrpc.following import WrittenProcess

_LINE = b"\x1b[3%dmline %06d \xc3\xa4\xe6\x97\xa5\x1b[0m\r\n"
_STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3000)),  # lines
    st.tuples(st.just("turn"), st.just(0)),
    st.tuples(st.just("ack"), st.integers(0, 70_000)),
    st.tuples(st.just("lag"), st.sampled_from([4096, 20_000, 100_000])),
)


class _Viewer:
    """Takes turns, and holds after each that what it has is the log's, but for what it was told was
    skipped.
    """

    def __init__(self, folder: Path, flow: Flow, *, stdio: str = "pty") -> None:
        self.written = WrittenProcess(folder, stdio=stdio)
        self.log = b""
        self.flow = flow
        self.place = self.shown = self.acknowledged = self.skipped = 0
        self.kinds: list[str] = []
        self.modes = ""
        self.newest = b""  # since the newest skip
        process = self.written.process
        self.output = TerminalOutput(
            process, process.log, BEGINNING, is_controlled=True, flow=flow, over=lambda: None
        )

    def write(self, lines: int) -> None:
        """Have the process write lines."""
        data = b"".join(_LINE % (n % 8, n) for n in range(lines))
        self.log += data
        self.written.write(data)

    def turn(self) -> bool:
        """Take one turn; return whether there is more at once."""
        frames, has_more = self.output.turn()
        for kind, payload in split_frames(frames):
            if kind != TEXT:
                assert payload == self.log[self.place : self.place + len(payload)]
                self.place += len(payload)
                self.shown += len(payload)
                self.newest += payload
                continue
            message = json.loads(payload)
            self.kinds.append(message["type"])
            if message["type"] == "skipped":
                assert int(message["cursor"].split(".")[0]) == self.place + message["bytes"]
                self.place += message["bytes"]
                self.skipped += message["bytes"]
                self.newest = b""
                self.modes = message["modes"]
                assert self.log[self.place - 1 : self.place] == b"\n", "it goes on at a line"
        return has_more

    def turns(self) -> None:
        """Take turns until nothing comes at once."""
        while self.turn():
            pass

    def acknowledge(self, count: int) -> None:
        """Say that bytes are drawn."""
        self.acknowledged = min(self.shown, self.acknowledged + count)
        self.flow.acknowledged(count)


@pytest.mark.promise("T.ahead", "T.lag")
@settings(deadline=None, max_examples=40)
@given(steps=st.lists(_STEP, max_size=25), ahead=st.sampled_from([4096, 30_000, 100_000]))
def test_every_byte_is_shown_or_counted_within_the_bounds(steps: list[tuple[str, int]], ahead: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        viewer = _Viewer(Path(folder), Flow(ahead_bytes=ahead, lag_bytes=50_000))
        for what, count in steps:
            if what == "write":
                viewer.write(count)
            elif what == "turn":
                viewer.turn()
            elif what == "ack":
                viewer.acknowledge(count)
            else:
                viewer.flow.allow_lag(count)
            assert viewer.shown - viewer.acknowledged <= ahead
        viewer.written.end(3)
        while not viewer.output.is_over:
            viewer.turns()
            assert viewer.shown - viewer.acknowledged <= ahead
            viewer.acknowledge(ahead)
        assert viewer.place == len(viewer.log) == viewer.shown + viewer.skipped
        assert viewer.kinds[-2:] == ["exited", "closed"]
        assert "gap" not in viewer.kinds


def test_without_room_neither_output_nor_the_end_comes_and_no_skip_either(tmp_path: Path) -> None:
    viewer = _Viewer(tmp_path, Flow(ahead_bytes=4096, lag_bytes=50_000))
    viewer.write(100)
    viewer.turns()
    viewer.write(10_000)
    viewer.written.end(0)
    assert viewer.shown >= 100
    viewer.turns()
    seen = viewer.shown, list(viewer.kinds)
    assert viewer.shown == 4096
    viewer.turns()
    assert (viewer.shown, viewer.kinds) == seen
    assert "exited" not in viewer.kinds


@pytest.mark.promise("T.lag")
def test_behind_a_skip_a_quarter_of_the_lag_is_drawn(tmp_path: Path) -> None:
    viewer = _Viewer(tmp_path, Flow(lag_bytes=1_000_000))
    viewer.write(20_000)  # 600 KB: as far as that nothing is left out
    viewer.turns()
    assert not viewer.skipped
    viewer.write(200_000)
    viewer.turns()
    assert viewer.skipped
    assert 240_000 < len(viewer.newest) <= 250_000


@pytest.mark.promise("T.lag")
def test_modes_of_a_large_skips_beginning_and_end_are_told(tmp_path: Path) -> None:
    viewer = _Viewer(tmp_path, Flow(lag_bytes=100_000))
    rest = b"x" * 99 + b"\n"
    viewer.log = b"\x1b[?10" + b"49h" + rest * 200_000 + b"\x1b[?25l" + rest * 5000
    viewer.written.write(viewer.log[:5])
    viewer.turns()  # the sequence is cut: the viewer has its beginning
    viewer.written.write(viewer.log[5:])
    viewer.turns()
    assert viewer.modes.endswith("\x1b[?1049h\x1b[?25l")


def test_a_skip_over_what_the_log_let_go_is_one_skip(tmp_path: Path) -> None:
    viewer = _Viewer(tmp_path, Flow(lag_bytes=100_000))
    viewer.write(100_000)
    viewer.written.release(1_000_000, 2_000_000)
    viewer.turns()
    assert viewer.kinds.count("skipped") == 1
    assert "gap" not in viewer.kinds
    assert viewer.place == len(viewer.log)


def test_of_two_streams_both_are_skipped(tmp_path: Path) -> None:
    written = WrittenProcess(tmp_path, stdio="pipes")
    for stream in (0, 1):
        written.write(b"0123456789\n" * 40_000, stream)
    process = written.process
    flow = Flow(lag_bytes=100_000)
    output = TerminalOutput(process, process.log, BEGINNING, is_controlled=True, flow=flow, over=lambda: None)
    shown = 0
    told: list[dict[str, object]] = []
    while True:
        frames, has_more = output.turn()
        for kind, payload in split_frames(frames):
            if kind == TEXT:
                told.append(json.loads(payload))
            else:
                shown += len(payload)
        if not has_more:
            break
    (skip,) = [one for one in told if one["type"] == "skipped"]
    assert isinstance(skip["bytes"], int)
    assert shown + skip["bytes"] == 880_000
    assert (output.cursor.stdout, output.cursor.stderr) == (440_000, 440_000)
