"""`ProcessFolder` against a model: any order of pieces, repetitions, kills and gaps leaves what the reader of
logs expects.
"""

import os
import shutil
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.layout import Layout
from outlive.extensions.fleet.processes import NodeJournal, known_nodes
from outlive.kernel.calls import punch_hole
from outlive.protocols.frames import IDX, decode_idx
from outlive.store.output_log import OutputChunk, OutputLog
from outlive.store.process_folder import ProcessFolder, make_folder

_ID = "01m81ds7h140vms3gn2qew5vw4"
_PIECES = st.binary(min_size=1, max_size=300)


class Mirroring(RuleBasedStateMachine):
    """The node's log is the model: two streams that only grow, told in pieces, some of them again."""

    @initialize()
    def begin(self) -> None:
        self.root = tempfile.mkdtemp()
        self.folder = f"{self.root}/p"
        os.mkdir(self.folder)
        self.there = [bytearray(), bytearray()]
        self.order: list[tuple[int, bytes]] = []
        self.files = self._open()

    def _open(self) -> ProcessFolder:
        return ProcessFolder(self.folder, limit=None, punch=punch_hole)

    @rule(stream=st.integers(0, 1), data=_PIECES)
    def tell(self, stream: int, data: bytes) -> None:
        self.there[stream] += data
        self.files.append(stream, data, len(self.there[stream]))
        self.order.append((stream, data))

    @rule(stream=st.integers(0, 1), back=st.integers(0, 400), more=st.binary(max_size=50))
    def tell_again(self, stream: int, back: int, more: bytes) -> None:
        begin = max(0, len(self.there[stream]) - back)
        self.there[stream] += more
        self.files.append(stream, bytes(self.there[stream][begin:]), len(self.there[stream]))
        if more:
            self.order.append((stream, more))

    @rule(stream=st.integers(0, 1))
    def leave_out(self, stream: int) -> None:
        end = len(self.there[stream]) + 10
        with pytest.raises(ValueError, match="left out"):
            self.files.append(stream, b"12345", end)

    @rule(torn=st.integers(0, IDX.size - 1), is_begun=st.booleans())
    def die(self, torn: int, is_begun: bool) -> None:
        """A kill: descriptors are gone, and a record may be torn, or have been written for bytes that never
        came.
        """
        self.files.close()
        with open(f"{self.folder}/idx", "ab") as file:
            if is_begun:
                sizes = [len(one) for one in self.there]
                file.write(IDX.pack(1, sum(sizes), sizes[1], 1))
            file.write(b"\1" * torn)
        self.files = self._open()

    @invariant()
    def all_is_there(self) -> None:
        if not hasattr(self, "files"):
            return
        assert self.files.cursor == Cursor(len(self.there[0]), len(self.there[1]))
        log = OutputLog(self.folder)
        cursor, order = BEGINNING, b""
        while chunks := log.read(cursor, 65536):
            order += b"".join(chunk.data for chunk in chunks)
            cursor = OutputChunk.after(cursor, chunks)
        assert cursor == self.files.cursor
        assert order == b"".join(data for _, data in self.order)
        log.close()

    def teardown(self) -> None:
        if hasattr(self, "files"):
            self.files.close()
            shutil.rmtree(self.root)


TestMirroring = pytest.mark.thorough(Mirroring.TestCase)
TestMirroring.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


@settings(deadline=None, max_examples=60)
@given(
    pieces=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30_000)), min_size=1, max_size=40),
    limit=st.integers(20_000, 120_000),
)
def test_a_bounded_log_keeps_its_ends_and_tells_the_gap(pieces: list[tuple[int, int]], limit: int) -> None:
    """Beyond the limit the middle goes; what is left is right, and offsets stay true."""
    with tempfile.TemporaryDirectory() as folder:
        files = ProcessFolder(folder, limit=limit, punch=punch_hole)
        there = [bytearray(), bytearray()]
        for number, (stream, count) in enumerate(pieces):
            data = bytes([number % 255 + 1]) * count
            there[stream] += data
            files.append(stream, data, len(there[stream]))
        log = OutputLog(folder)
        cursor = BEGINNING
        while chunks := log.read(cursor, 65536):
            for chunk in chunks:
                if not chunk.is_gap:
                    assert chunk.data == there[chunk.stream][chunk.offset : chunk.end]
            cursor = OutputChunk.after(cursor, chunks)
        assert cursor == Cursor(len(there[0]), len(there[1]))
        assert ProcessFolder(folder, limit=limit, punch=punch_hole).released == files.released
        log.close()
        files.close()


def test_a_gap_of_the_nodes_log_is_one_here() -> None:
    """Bytes that were never told are a hole, and told as a gap; records of order go on behind it."""
    with tempfile.TemporaryDirectory() as folder:
        files = ProcessFolder(folder, limit=None, punch=punch_hole)
        files.append(0, b"head", 4)
        files.skip(0, 4, 10_000)
        files.append(0, b"tail", 10_004)
        files.skip(0, 5, 9_000)  # told again after a cut: nothing new
        log = OutputLog(folder)
        chunks = log.read(BEGINNING, 65536)
        while chunks and chunks[-1].end < 10_004:
            chunks += log.read(OutputChunk.after(BEGINNING, chunks), 65536)
        assert [(one.offset, one.end, one.is_gap) for one in chunks] == [
            (0, 4, False),
            (4, 10_000, True),
            (10_000, 10_004, False),
        ]
        with open(f"{folder}/idx", "rb") as file:
            assert next(decode_idx(file.read())).start == 0
        log.close()
        files.close()


def test_a_folder_is_made_once(tmp_path: os.PathLike[str]) -> None:
    """The second attempt finds the first one's."""
    prepared, folder = f"{tmp_path}/a/prepared", f"{tmp_path}/b/{_ID}"
    assert make_folder(prepared, folder, spec=b"spec", script=b"echo")
    assert not make_folder(prepared, folder, spec=b"other", script=b"")
    with open(f"{folder}/spec", "rb") as file:
        assert file.read() == b"spec"
    assert os.stat(f"{folder}/script").st_mode & 0o777 == 0o700


def test_the_journal_names_what_is_followed(tmp_path: os.PathLike[str]) -> None:
    """Until it is taken off; a node without any is not known."""
    layout = Layout(str(tmp_path))
    journal = NodeJournal(layout, "far")
    assert journal.read() == known_nodes(layout) == []
    journal.add(_ID)
    assert journal.read() == [_ID]
    assert known_nodes(layout) == ["far"]
    journal.remove(_ID)
    journal.remove(_ID)
    assert known_nodes(layout) == []
