"""Writes a process folder as the keeper does: idx records ahead of the bytes, gaps ahead of the hole."""

from dataclasses import dataclass, field
from pathlib import Path

from outlive.protocols.frames import IDX, IdxRecord

_NAMES = ("out", "err")


@dataclass(slots=True)
class KeeperWrites:
    """One folder. `order` remembers (stream, byte) for every byte in the order of writing."""

    folder: Path
    sizes: list[int] = field(default_factory=lambda: [0, 0])
    order: list[tuple[int, int]] = field(default_factory=list)
    last_stream: int = -1
    time_ns: int = 1_000

    def begin_run(self, stream: int) -> None:
        """Append the record that comes before a run's first byte."""
        self.time_ns += 1_000
        record = IdxRecord(self.time_ns, sum(self.sizes), self.sizes[stream], stream)
        with (self.folder / "idx").open("ab") as idx:
            idx.write(record.encode())
        self.last_stream = stream

    def write(self, stream: int, content: bytes, *, new_run: bool = False) -> None:
        """Append to a stream, with a record where the stream changed."""
        if new_run or stream != self.last_stream:
            self.begin_run(stream)
        with (self.folder / _NAMES[stream]).open("ab") as log:
            log.write(content)
        self.sizes[stream] += len(content)
        self.order += [(stream, byte) for byte in content]

    def release(self, stream: int, start: int, end: int) -> None:
        """Give up a range: the gap is told first, then the bytes read as zeros."""
        ranges = [(0, 0), (0, 0)]
        ranges[stream] = (start, end)
        (self.folder / "gaps").write_text("{} {} {} {}\n".format(*ranges[0], *ranges[1]))
        with (self.folder / _NAMES[stream]).open("r+b") as log:
            log.seek(start)
            log.write(bytes(end - start))

    def release_records(self, start: int, end: int) -> None:
        """Give up idx records: they read as zeros."""
        with (self.folder / "idx").open("r+b") as idx:
            idx.seek(start * IDX.size)
            idx.write(bytes((end - start) * IDX.size))
