"""A gigabyte by way of two servers, with the memory of each counted; minutes on a busy machine."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.extensions.fleet.pairs import Pair
from tests.files.trees import sum_of
from tests.support.server import outlive_command

_SIZE = 1024**3
_MOST_BYTES = 100 * 1024**2  # of memory, above what a server has at rest, for a file of any size


def _memory(pid: int, name: str) -> int:
    """Return a figure of a process's memory in bytes (proc_pid_status(5))."""
    found = re.search(rf"^{name}:\s*(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.rare
@pytest.mark.promise("S0.19.copy_bounds", "S0.19.copy_whole")
@pytest.mark.parametrize("is_download", [False, True])
def test_a_gigabyte_passes_two_servers_in_bounded_memory(
    own_pair: Pair, tmp_path: Path, is_download: bool
) -> None:
    source, target = tmp_path / "source", tmp_path / "copy"
    with open(source, "wb") as file:
        block = os.urandom(1 << 20)
        file.writelines(number.to_bytes(8, "big") + block[8:] for number in range(_SIZE >> 20))
    words = (f"far:{source}", str(target)) if is_download else (str(source), f"far:{target}")
    rest = {server: _memory(server.pid, "VmRSS") for server in (own_pair.near, own_pair.far)}
    begun = time.monotonic()
    done = subprocess.run(
        ["/usr/bin/env", *outlive_command(), "cp", *words, "--state-dir", str(own_pair.near.state_dir)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    print(f"{_SIZE / (time.monotonic() - begun) / 1e6:.0f} MB/s", done.stderr)
    for server, before in rest.items():
        grown = _memory(server.pid, "VmHWM") - before
        print(f"{grown / 1e6:.0f} MB more in memory at most")
        assert grown < _MOST_BYTES
    assert sum_of(target) == sum_of(source)
