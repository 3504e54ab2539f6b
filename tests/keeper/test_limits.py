"""More output than `output_limit`: truncate releases the middle, block waits for readers, kill ends the
tree.
"""

import os
from pathlib import Path

from outlive.core.identity import id_to_bytes
from outlive.keeper.supervisor.output.limits import read_gaps
from outlive.protocols.keeper import CauseCode, Flags, Phase
from tests.keeper.client import KeeperRefused
from tests.keeper.house import House, sh
from tests.support.doorbells import Doorbell

_MB = 1 << 20


def _numbers(count: int) -> bytes:
    return b"".join(b"%08d\n" % number for number in range(count))


def _disk_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def _wait_full(house: House, process_id: str, *, beyond: int) -> Doorbell:
    """Wait until the log is full again behind an offset, or the process is done."""
    return house.client.wait_bell(
        process_id,
        lambda bell: (bell.flags & Flags.BLOCKED and bell.out > beyond) or bell.phase == Phase.DONE,
        "a full log",
    )


def _release(house: House, process_id: str, delivered: int) -> None:
    """Let the log be emptied; with its last bytes in there the process may end at the same moment."""
    try:
        house.client.ask("release", id=process_id, out=delivered, err=0)
    except KeeperRefused as refused:
        if refused.reply["error"] != "process_ended":
            raise


def test_truncate_keeps_head_and_tail_at_their_true_offsets(house: House) -> None:
    line = "seq -f %08.0f 0 2000000"
    process_id = house.start(*sh(line), output_limit=2 * _MB, on_limit="truncate")
    bell = house.client.wait_done(process_id)
    assert bell.flags & Flags.GAPS
    assert house.wire_code(process_id) == 0
    path = house.folder(process_id) / "out"
    assert path.stat().st_size == bell.out == 9 * 2_000_001
    (begin, end), other = read_gaps(str(house.folder(process_id)))
    assert other == (0, 0)
    assert 0 < begin < end < bell.out
    assert bell.out - (end - begin) <= 3 * _MB
    assert house.done(process_id)["gaps"]
    with path.open("rb") as file:
        head = file.read(begin)
        file.seek(end)
        tail = file.read()
    assert head == _numbers(begin // 9 + 1)[:begin]
    first = end // 9
    expected = b"".join(b"%08d\n" % number for number in range(first, 2_000_001))[end - first * 9 :]
    assert tail == expected
    assert _disk_bytes(path) < 4 * _MB


def test_truncate_keeps_the_quiet_stream_whole(house: House) -> None:
    line = "head -c 30000000 /dev/zero; head -c 5000 /dev/zero | tr '\\0' e >&2"
    process_id = house.start(*sh(line), output_limit=2 * _MB, on_limit="truncate")
    bell = house.client.wait_done(process_id)
    assert (bell.out, bell.err) == (30_000_000, 5000)
    assert house.err(process_id) == b"e" * 5000
    assert read_gaps(str(house.folder(process_id)))[1] == (0, 0)


def test_truncate_goes_on_with_the_same_gap_when_the_supervisor_dies(own_house: House) -> None:
    house = own_house
    process_id = house.start(
        *sh("seq -f %08.0f 0 1500000; sleep 0.2; seq -f %08.0f 1500001 2000000"), output_limit=2 * _MB
    )
    house.wait_output(process_id, 1)
    for _ in range(3):
        house.kill(house.supervisor())
    bell = house.client.wait_done(process_id)
    assert house.client.completions[id_to_bytes(process_id)] == 1
    assert house.done(process_id)["out"] == 9 * 2_000_001
    (begin, end), _ = read_gaps(str(house.folder(process_id)))
    assert 0 < begin < end
    with (house.folder(process_id) / "out").open("rb") as file:
        assert file.read(begin) == _numbers(begin // 9 + 1)[:begin]
        file.seek(-9, os.SEEK_END)
        assert file.read() == b"02000000\n"
    assert bell.phase == Phase.DONE


def test_block_makes_the_process_wait_until_output_is_released(house: House) -> None:
    total = 12 * _MB
    process_id = house.start(
        *sh(f"head -c {total} /dev/zero; echo end"), output_limit=2 * _MB, on_limit="block"
    )
    delivered, rounds = 0, 0
    while (bell := _wait_full(house, process_id, beyond=delivered)).phase != Phase.DONE:
        rounds += 1
        assert bell.out - delivered <= 4 * _MB  # the limit and one splice of what the pipe held
        delivered = bell.out
        _release(house, process_id, delivered)
    assert rounds >= 3
    assert house.done(process_id)["out"] == total + 4
    assert _disk_bytes(house.folder(process_id) / "out") <= 5 * _MB


def test_block_still_blocks_when_the_supervisor_dies(own_house: House) -> None:
    process_id = own_house.start(*sh(f"head -c {20 * _MB} /dev/zero"), output_limit=_MB, on_limit="block")
    own_house.client.wait_bell(process_id, lambda bell: bell.flags & Flags.BLOCKED, "a full log")
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    bell = own_house.client.wait_bell(process_id, lambda bell: bell.flags & Flags.BLOCKED, "a full log again")
    assert bell.out < 5 * _MB
    delivered = 0
    while (bell := _wait_full(own_house, process_id, beyond=delivered)).phase != Phase.DONE:
        delivered = bell.out
        _release(own_house, process_id, delivered)
    assert own_house.done(process_id)["out"] == 20 * _MB


def test_a_stop_of_a_blocked_process_ends_it(house: House) -> None:
    process_id = house.start("/usr/bin/yes", output_limit=_MB, on_limit="block")
    house.client.wait_bell(process_id, lambda bell: bell.flags & Flags.BLOCKED, "a full log")
    house.client.ask("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=10.0)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == -15


def test_kill_ends_the_process_and_says_why(house: House) -> None:
    process_id = house.start("/usr/bin/yes", output_limit=_MB, on_limit="kill", grace_s=10.0)
    bell = house.client.wait_done(process_id)
    assert (house.wire_code(process_id), bell.cause) == (-15, CauseCode.OUTPUT_LIMIT)
    assert "1048576 bytes" in str(house.done(process_id)["note"])
    assert bell.out >= _MB


def test_output_within_the_limit_is_kept_whole(house: House) -> None:
    process_id = house.start(*sh(f"head -c {2 * _MB} /dev/zero"), output_limit=2 * _MB, on_limit="kill")
    house.client.wait_done(process_id)
    assert (house.wire_code(process_id), len(house.out(process_id))) == (0, 2 * _MB)
    assert not (house.folder(process_id) / "gaps").exists()
