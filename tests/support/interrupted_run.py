"""Tests that never end, for `tests.house.test_interrupted`, which interrupts their run.

Collected by name only.

Each starts a server with commands that are hard to find again, and writes what there is to be found into
INTERRUPTED_RUN.
"""

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests
from tests.support.processes import Marker
from tests.support.run_mark import open_folder_of_run
from tests.support.run_watcher import VARIABLE
from tests.support.server import OutliveServer


@pytest.mark.parametrize("number", [1, 2])
def test_is_interrupted(own_server: OutliveServer, marker: Marker, tmp_path: Path, number: int) -> None:
    """A child without environment, a daemon, and one that is deaf."""
    line = (
        f"env -i setsid {marker.sleep} & (setsid {marker.sleep} &) & trap '' TERM HUP INT; "
        f"{marker.sleep}; sleep 600"
    )
    Requests(own_server).start(line)
    while len(marker.pids()) < 3:
        pass
    there = {
        "mark": os.environ[VARIABLE].rpartition(":")[2],
        "seconds": marker.seconds,
        "worker": os.getpid(),
        "state": str(own_server.state_dir),
        "folders": [str(tmp_path), str(open_folder_of_run()), tempfile.mkdtemp()],
    }
    folder = Path(os.environ["INTERRUPTED_RUN"])
    (folder / f"{number}.new").write_text(json.dumps(there))
    (folder / f"{number}.new").rename(folder / f"{number}.json")
    signal.pause()
