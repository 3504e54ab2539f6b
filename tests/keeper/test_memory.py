"""What a process costs the supervisor once it has ended: nothing."""

import pytest

from outlive.protocols.keeper import CauseCode
from tests.keeper.client import KeeperRefused
from tests.keeper.house import House, sh
from tests.support.processes import own_memory_bytes

_ROUNDS = 40
_LEFT_BYTES = 1024  # a process; each kept in memory would be four times as much


def _live_a_little(house: House) -> int:
    """Start one process of each kind there is, and wait until all are let go of; returns how many."""
    started = [
        house.start("/bin/true"),
        house.start(*sh("echo hello; echo there >&2"), timeout_s=60.0),
        house.start(*sh("echo hello"), stdio="merge"),
        house.start(*sh("echo hello"), stdio="pty"),
        house.start(*sh("sleep 0.01 & echo hello"), stdin="pipe"),
        house.start("/bin/sleep", "60", timeout_s=0.001, grace_s=0.0),
    ]
    cancelled = house.start("/bin/sleep", "60")
    house.client.ask("stop", id=cancelled, cause=int(CauseCode.CANCEL), grace_s=0.0)
    process_id, spec = house.spec("/no/such/program")
    with pytest.raises(KeeperRefused, match="not_found"):
        house.client.start(spec, process_id=process_id)
    for process_id in (*started, cancelled):
        house.client.wait_closed(process_id)
    return len(started) + 2


@pytest.mark.thorough
def test_what_has_ended_leaves_nothing_in_the_supervisor(own_house: House) -> None:
    """It is to run for years, and a thousand commands an hour are nothing special."""
    for _ in range(_ROUNDS):
        _live_a_little(own_house)
    before = own_memory_bytes(own_house.supervisor())
    count = sum(_live_a_little(own_house) for _ in range(_ROUNDS))
    grown = own_memory_bytes(own_house.supervisor()) - before
    assert grown < count * _LEFT_BYTES, f"{grown / count:.0f} bytes a process"
