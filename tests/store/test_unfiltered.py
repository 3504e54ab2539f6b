"""What was kept beside a line is read when its copier has ended."""

import fcntl
import threading
from pathlib import Path

import pytest

from outlive.store.unfiltered import look_unfiltered


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A process's folder at the end of its shell."""
    (tmp_path / "unfiltered").mkdir()
    (tmp_path / "filter").write_text("1000,2,1\n")
    (tmp_path / "codes").write_text("3 0 end\n")
    (tmp_path / "unfiltered" / "out").touch()
    return tmp_path


def test_a_copier_that_still_writes_is_waited_for(folder: Path) -> None:
    """The shell ends without it: `head` has left, and a busy machine lets the copier wait."""
    with (folder / "unfiltered" / "out").open("wb", buffering=0) as log:
        fcntl.flock(log, fcntl.LOCK_EX)

        def end() -> None:
            log.write(b"late\n")
            fcntl.flock(log, fcntl.LOCK_UN)

        timer = threading.Timer(0.05, end)
        timer.start()
        kept = look_unfiltered(str(folder))
        timer.join()
    assert kept is not None
    assert (kept.exit_code_before, kept.size) == (3, 5)


def test_a_line_that_holds_the_lock_itself_is_not_waited_for_long(folder: Path) -> None:
    with (folder / "unfiltered" / "out").open("rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        kept = look_unfiltered(str(folder))
    assert kept is not None
    assert kept.size == 0
