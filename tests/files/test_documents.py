"""Small files that others wrote: found ones are regular, named ones may be pipes, and nothing is waited for
without an end.
"""

import contextlib
import os
import threading
from pathlib import Path

import pytest

from outlive.files.documents import NamedStream, read_found, read_named


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_a_found_file_is_read_whole_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 5000)
    (tmp_path / "link").symlink_to(path)
    assert read_found(str(path), 5000) == read_found(str(tmp_path / "link"), 5000) == b"x" * 5000
    assert read_named(str(path), 5000) == b"x" * 5000
    for read in (read_found, read_named):
        with pytest.raises(OSError, match="larger than 4 KiB"):
            read(str(path), 4096)
        with pytest.raises(FileNotFoundError):
            read(str(tmp_path / "none"), 1)


def test_a_link_is_not_followed_where_it_may_not_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    assert read_found(str(tmp_path / "file"), 1, follows_link=False) == b"x"
    with pytest.raises(OSError, match="symbolic"):
        read_found(str(tmp_path / "link"), 1, follows_link=False)


def test_only_a_regular_file_is_found(fifo: Path, tmp_path: Path) -> None:
    for path in (fifo, tmp_path, Path("/dev/null"), Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file"):
            read_found(str(path), 100)


def test_a_named_pipe_is_read_to_its_end(fifo: Path) -> None:
    def write() -> None:
        with fifo.open("wb", buffering=0) as file:
            for _ in range(50):
                file.write(b"x" * 10_000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert read_named(str(fifo), 1 << 20, wait_s=60) == b"x" * 500_000
    finally:
        writer.join()


@pytest.mark.parametrize("content", [b"", b"x"])
def test_a_pipe_of_a_shell_is_read_to_its_end(content: bytes) -> None:
    """As `<(true)` of bash: the writer has come, and gone, before it is opened."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    try:
        assert read_named(f"/proc/self/fd/{reader}", 100, wait_s=60) == content
    finally:
        os.close(reader)


def test_a_stream_is_read_as_it_comes_and_given_up_when_it_is_silent(fifo: Path, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="did not come in time"):
        NamedStream(str(fifo), silent_s=0.01)
    with pytest.raises(IsADirectoryError):
        NamedStream(str(tmp_path))
    writer = os.open(fifo, os.O_RDWR)
    try:
        os.write(writer, b"xy")
        with contextlib.closing(NamedStream(str(fifo), silent_s=0.01)) as stream:
            assert [stream.read(1), stream.read(1)] == [b"x", b"y"]
            with pytest.raises(TimeoutError, match="did not come in time"):
                stream.read(1)
    finally:
        os.close(writer)


def test_a_pipe_without_an_end_is_given_up(fifo: Path) -> None:
    with pytest.raises(TimeoutError, match="did not come in time"):  # no writer comes
        read_named(str(fifo), 100, wait_s=0.01)
    writer = os.open(fifo, os.O_RDWR)
    try:
        os.write(writer, b"x")  # and this one stays
        with pytest.raises(TimeoutError, match="did not come in time"):
            read_named(str(fifo), 100, wait_s=0.01)
    finally:
        os.close(writer)


def test_a_device_without_an_end_is_bounded() -> None:
    assert read_named("/dev/null", 0) == b""
    with pytest.raises(OSError, match="larger than 64 KiB"):
        read_named("/dev/zero", 1 << 16)
