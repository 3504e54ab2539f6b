"""What a process on a node holds of this server: files are open for the newest output only."""

import functools
import os

import pytest

from outlive.client import Process
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, output_of, wait_until

pytestmark = pytest.mark.thorough

_PROCESSES = 40


def _open_files(pair: Pair) -> list[str]:
    """Return which files of process folders the near server has open."""
    folder = f"/proc/{pair.near.pid}/fd"
    found = []
    for name in os.listdir(folder):
        try:
            found.append(os.readlink(f"{folder}/{name}"))
        except FileNotFoundError:  # closed meanwhile
            continue
    return [path for path in found if "/processes/" in path]


def _has_begun(process: Process) -> bool:
    return process.info().cursor.stdout == 6


@pytest.mark.root("a server's memory and descriptors are closed to its user")
@pytest.mark.promise("S4.12.nodes.files")
def test_processes_that_have_written_hold_less_than_a_file_each(own_pair: Pair) -> None:
    """However many there are; what they write later is behind what they wrote before."""
    line = "echo begun; read x; echo then; echo $x >&2"
    with own_pair.client() as client:
        processes = [client.start(line, backend="far", stdin="pipe") for _ in range(_PROCESSES)]
        for process in processes:
            wait_until(functools.partial(_has_begun, process))
        assert 0 < len(_open_files(own_pair)) < _PROCESSES
        for process in processes:
            process.write(b"more\n")
        for process in processes:
            assert process.wait(PATIENCE_S).exit_code == 0
            assert output_of(process) == (b"begun\nthen\n", b"more\n")
