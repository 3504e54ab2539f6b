"""After a power cut the server starts, says what became of what ran, and runs what is new."""

import subprocess
import time
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.core.lifecycle import ENDED
from tests.faults.power_cut import Disk, look_after_boot
from tests.keeper.disks import mounted
from tests.support.server import OutliveServer

pytestmark = [
    pytest.mark.promise("F.power"),
    pytest.mark.thorough,
    pytest.mark.root("only root may mount a file system"),
]

_STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.1; done"
_COPIES = 4
_LOAD_S = 1.2  # between two copies: the journal is committed each second


def _load(client: Client) -> None:
    client.start("echo short; exit 3")
    client.start(_STUBBORN).cancel(grace_s=600.0)
    client.start("sleep 600").pause()
    client.start("yes | head -c 300000; sleep 600", output_limit=65536)


def test_a_server_starts_on_each_image_that_a_power_cut_would_leave(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    images: list[Path] = []
    try:
        folder = tmp_path / "project"
        folder.mkdir()
        state_dir = disk.place / "state"
        with OutliveServer(state_dir), Client(state_dir, start_server=False) as client:
            client.services.up(str(folder), {"stays": {"command": "exec sleep 600"}})
            for _ in range(_COPIES):
                for is_written in (True, False):
                    until = time.monotonic() + _LOAD_S
                    while time.monotonic() < until:
                        _load(client)
                    if is_written:  # the kernel does so after half a minute
                        subprocess.run(["sync", "--file-system", str(disk.place)], check=True)
                images.append(disk.copy())
    finally:
        disk.close()
    for image in images:
        with mounted(tmp_path / f"{image.name}.d", "-t", "ext4", "-o", "loop", str(image)) as place:
            found = look_after_boot(place / "state", tmp_path)
        assert (found["exit_code"], found["output"]) == (9, "on\n")
        states = found["states"]
        assert isinstance(states, dict)
        assert states
        alive = {one: state for one, state in states.items() if state not in ENDED}
        assert len(alive) <= 1, alive  # the service is there again
        assert set(alive.values()) <= {"running", "starting"}
