"""A shim records its command's end before it reaps the command: until then the zombie is the only durable
copy (decision 27).

A folder in the place of the record makes recording fail for as long as a test wants. The shim must then leave
the zombie alone. A shim that reaped first would have the only copy in its memory, and a kill would lose it:
on a kernel before 6.15 for good, since there no pidfd knows how a process ended once it was reaped.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.processes import Gate, Marker, stat

_LIBC = ctypes.CDLL(None)
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE (rename(2))
_OLDER_KERNEL = {"OUTLIVE_DEGRADE": "pidfd_info"}
_STEPS = ("no_new_privileges",)
_COMMANDS = {
    "alone": "{wait}; exit 7",
    "leaves a descendant": "setsid {sleep} & {wait}; exit 7",
    # a shell waits for no child that it has not been asked about
    "leaves the dead": "true & true & {wait}; exit 7",
    "by a signal": "{wait}; ulimit -c 0; kill -SEGV $$",
}


def _switches(pid: int) -> int:
    """Return how often a process has gone to sleep by itself (proc_pid_status(5),
    voluntary_ctxt_switches).
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches:")))


@pytest.fixture(scope="module", params=[{}, _OLDER_KERNEL], ids=["kernel", "older-kernel"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper on each kernel."""
    with House(tmp_path_factory.mktemp("k") / "state", env=request.param) as one:
        yield one


@pytest.mark.parametrize("command", _COMMANDS.values(), ids=list(_COMMANDS))
@pytest.mark.parametrize("steps", [None, _STEPS], ids=["plain", "bounded"])
def test_an_end_is_recorded_before_the_command_is_reaped(
    house: House,
    steps: tuple[str, ...] | None,
    command: str,
    gate: Gate,
    marker: Marker,
) -> None:
    line = command.format(wait=gate.wait, sleep=marker.sleep)
    process_id = house.start("/bin/bash", "-c", line, confinement=steps)
    house.wait_redundant()
    shim, pid = house.shim_of(process_id), house.pid(process_id)
    record = house.folder(process_id) / "pid"
    record.rename(record.with_name("aside"))
    record.mkdir()
    try:
        gate.open()
        until(lambda: (found := stat(pid)) is None or found.state == "Z", "the command's end")
        # It sleeps between two attempts to record the end: after two sleeps at least one attempt has been
        # made as a whole.
        slept = _switches(shim)
        until(lambda: stat(pid) is None or _switches(shim) >= slept + 2, "the shim to try again")
        found = stat(pid)
    finally:
        # At once: what the shim wrote into a missing record would be lost with its file.
        assert _LIBC.renameat2(_HERE, bytes(record.with_name("aside")), _HERE, bytes(record), _EXCHANGE) == 0
        house.kill(shim)
    assert found is not None, "reaped, and recorded nowhere"
    assert (found.state, found.ppid) == ("Z", shim)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == (-11 if "SEGV" in command else 7)
    assert house.client.setbacks == []
