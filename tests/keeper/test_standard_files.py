"""The keeper's log: two files of a bounded size, whoever of its processes writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_WRITE = """
import sys
from outlive.core.layout import Layout
from outlive.keeper.common.standard_files import log, use_standard_files
use_standard_files(Layout(sys.argv[1]))
for number in range(40_000):
    log(f"{sys.argv[2]} {number} " + "x" * 60)
"""
_MOST = 1024 * 1024 + 200  # a line more


@pytest.mark.promise("A.logs")
def test_a_log_is_two_files_of_bounded_size(tmp_path: Path) -> None:
    """Two write at once, as guardian and supervisor do, 8 MB in all."""
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITE, str(tmp_path), name], env=dict(os.environ))
        for name in ("guardian", "supervisor")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes.keys() == {"keeper.log", "keeper.log.old"}
    assert max(sizes.values()) < 2 * _MOST  # both may have written their last line to the same one
    assert b" 39999 xx" in (tmp_path / "keeper.log").read_bytes() + (tmp_path / "keeper.log.old").read_bytes()


@pytest.mark.promise("A.logs")
def test_a_file_that_is_not_the_keepers_is_left_alone(tmp_path: Path) -> None:
    own = tmp_path / "mine.txt"
    own.write_bytes(b"x" * 2 * _MOST)
    code = "from outlive.keeper.common.standard_files import log; log('a line')"
    with own.open("ab") as stderr:
        subprocess.run([sys.executable, "-c", code], stderr=stderr, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert own.read_bytes().endswith(b"a line\n")
