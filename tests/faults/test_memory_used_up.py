"""A command that uses up the memory which keeper and server need, too: the kernel takes that command."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from outlive.keeper.sandbox.cgroups import group_of, mount_point
from tests.keeper.client import until
from tests.rest.rest_caller import RestCaller
from tests.support.processes import is_alive, of_state_folder
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.root("only root may make control groups"), pytest.mark.thorough]

_LIMIT_BYTES = 400 << 20
# Many processes, each smaller than supervisor and server: the largest one is what the kernel takes otherwise.
_HUNGRY = """
import os, sys, time
for number in range(200):
    if not os.fork():
        held = bytearray(os.urandom(4096)) * 1024
        time.sleep(1000)
    time.sleep(0.01)
time.sleep(1000)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of so much memory."""
    made = _make_group("cgroup2", "", "memory.max") or _make_group(
        "cgroup", "memory", "memory.limit_in_bytes"
    )
    if made is None:
        pytest.skip("no control group that bounds memory can be made here")
    yield made
    until(lambda: _is_removed(made), "the group to be empty")


def _make_group(kind: str, controller: str, limit: str) -> Path | None:
    root, path = mount_point(kind, controller), group_of(controller)
    made = Path(f"{root}{path}", f"outlive-test-{os.getpid()}")
    try:
        made.mkdir()
        (made / limit).write_text(str(_LIMIT_BYTES))
    except OSError:
        with suppress(OSError):
            made.rmdir()
        return None
    return made


def _is_removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def _score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def test_a_command_that_uses_up_the_memory_is_what_the_kernel_takes(
    group: Path, own_server: OutliveServer
) -> None:
    rest = RestCaller(own_server.rest_url)
    rest.run("true")
    ours = {own_server.pid, *of_state_folder(own_server.state_dir)}
    for pid in sorted(ours):
        (group / "cgroup.procs").write_text(str(pid))
    hungry = rest.start(argv=["/usr/bin/python3", "-S", "-c", _HUNGRY])
    assert _score(hungry["pid"]) > max(map(_score, ours))
    until(lambda: _kills(group) > 5, "memory to run out")
    rest.send("POST", f"/api/v1/processes/{hungry['process_id']}/cancel", {"grace_s": 0})
    assert all(map(is_alive, ours))
    assert rest.run("exit 3")["exit_code"] == 3


def _kills(group: Path) -> int:
    for name in ("memory.events", "memory.oom_control"):
        with suppress(OSError):
            for line in (group / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return 0
