"""A machine that loses its power: an ext4 whose device is copied while it is written to, and the next boot.

A copy has what the kernel had written by then: names that the journal has committed, and files whose content
was still in memory, empty. As a program of its own, `python -m tests.faults.power_cut STATE_DIR BOOT_ID`,
this is a look after that boot: its id is another one for all that it starts.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from outlive.client import Client
from tests.keeper.disks import make_ext4, mounted
from tests.support.server import OutliveServer

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_SIZE_BYTES = 96 << 20


class Disk:
    """An ext4 in a file below `folder`, mounted at `place`, which commits names each second."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "image"
        self._folder = folder
        self._count = 0
        make_ext4(self._image, _SIZE_BYTES)
        self._mounts = ExitStack()
        self.place = self._mounts.enter_context(
            mounted(folder / "disk", "-t", "ext4", "-o", "loop,commit=1", str(self._image))
        )

    def copy(self) -> Path:
        """Return a copy of the device as it is at this moment: what a power cut now would leave."""
        self._count += 1
        copy = self._folder / f"copy{self._count}"
        subprocess.run(["cp", "--sparse=always", str(self._image), str(copy)], check=True)
        return copy

    def close(self) -> None:
        """Unmount it."""
        self._mounts.close()


def look_after_boot(state_dir: Path, folder: Path) -> dict[str, object]:
    """Start a server in another boot; return what it lists, and what a new command says."""
    boot = folder / "boot_id"
    boot.write_text("00000000-0000-4000-8000-000000000001\n")
    words = [sys.executable, "-m", "tests.faults.power_cut", str(state_dir), str(boot)]
    done = subprocess.run(
        ["unshare", "--mount", *words], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def _look(state_dir: Path, boot: str) -> dict[str, object]:
    subprocess.run(["mount", "--bind", boot, _BOOT_ID], check=True)
    with OutliveServer(state_dir, is_executed=True), Client(state_dir, start_server=False) as client:
        states = {one.process_id: one.state for one in client.list(limit=1000)}
        new = client.start("echo on; exit 9")
        end = new.wait()
        out = state_dir / "processes" / new.process_id / "out"
        return {"states": states, "exit_code": end.exit_code, "output": out.read_text()}


if __name__ == "__main__":
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    print(json.dumps(_look(Path(sys.argv[1]), sys.argv[2])))
