"""Much output through `outlive run`: exact to the byte, at the reader's pace, with little on the disk.

OUTLIVE_RUN_SLOW_GB sizes the slow pipe (5 is what was promised; a fraction here).
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.comparing import Stage
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.slow, pytest.mark.alone]

_MB = 1 << 20
_SLOW_BYTES = int(float(os.environ.get("OUTLIVE_RUN_SLOW_GB", "0.6")) * 1e9)
_MOST_ON_DISK = 96 * _MB  # 64 MiB of log, a pipe's content, and the index

# The same bytes every time, made faster than any pipe takes them: a counter in each block of 64 KiB.
_WRITER = """
import os, sys
left, number, filler = int(sys.argv[1]), 0, bytes(range(256)) * 256
while left > 0:
    block = (b"%016d" % number + filler[16:])[:left]
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    left -= len(block)
    number += 1
sys.exit(17)
"""


def _expected(size: int) -> str:
    digest, number, left, filler = hashlib.sha256(), 0, size, bytes(range(256)) * 256
    while left > 0:
        block = (b"%016d" % number + filler[16:])[:left]
        digest.update(block)
        left -= len(block)
        number += 1
    return digest.hexdigest()


def _on_disk(server: OutliveServer) -> int:
    found = 0
    for path in (server.state_dir / "processes").glob("*/*"):
        try:
            found += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return found


def test_200_mb_through_a_pipe_are_exact(served: OutliveServer, tmp_path: Path) -> None:
    size = 200_000_000
    stage = Stage(served, tmp_path)
    with stage.running([sys.executable, "-c", _WRITER, str(size)], is_bare=False) as process:
        assert process.stdout is not None
        digest = hashlib.sha256()
        while data := process.stdout.read(_MB):
            digest.update(data)
        assert process.wait(60) == 17
    assert digest.hexdigest() == _expected(size)


def test_200_mb_of_input_are_exact(served: OutliveServer, tmp_path: Path) -> None:
    size = 200_000_000
    writer = [sys.executable, "-c", _WRITER, str(size)]
    with subprocess.Popen(writer, stdout=subprocess.PIPE) as source:
        stage = Stage(served, tmp_path)
        seen = stage.seen(["sha256sum"], is_bare=False, stdin=source.stdout or subprocess.DEVNULL)
    assert seen.stdout.split()[0].decode() == _expected(size)


@pytest.mark.timeout(3600)
def test_a_slow_pipe_slows_the_command_and_the_disk_stays_bounded(
    served: OutliveServer, tmp_path: Path
) -> None:
    stage = Stage(served, tmp_path)
    before = _on_disk(served)
    most, looked, begun = 0, 0.0, time.monotonic()
    with stage.running([sys.executable, "-c", _WRITER, str(_SLOW_BYTES)], is_bare=False) as process:
        assert process.stdout is not None
        digest, taken, rest = hashlib.sha256(), 0, 64 * _MB
        while data := process.stdout.read(_MB):
            digest.update(data)
            taken += len(data)
            if time.monotonic() - looked > 0.25:
                looked = time.monotonic()
                most = max(most, _on_disk(served) - before)
            if taken >= rest:  # a reader that rests now and then
                rest += 128 * _MB
                time.sleep(0.5)
                most = max(most, _on_disk(served) - before)
        assert process.wait(120) == 17
    print(f"{taken} bytes in {time.monotonic() - begun:.1f} s, at most {most / _MB:.1f} MiB on the disk")
    assert digest.hexdigest() == _expected(_SLOW_BYTES)
    assert most < _MOST_ON_DISK
