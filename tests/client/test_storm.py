"""A storm: servers, guardians and supervisors killed at any moment under a follow at full speed."""

import hashlib
import os
import random
import signal
import threading

import pytest

from outlive.client import Client, Output
from tests.support.server import OutliveServer

_LINES = 400_000
_BLOWS = int(os.environ.get("STORM_KILLS", "20"))


def _strike(server: OutliveServer, dice: random.Random) -> None:
    if dice.random() < 0.6:
        server.restart()
        return
    status = server.keeper_status()
    pids = [status.guardian_pid, status.supervisor_pid]
    for pid in dice.choice([pids, pids[:1], pids[1:]]):
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.promise("C.follow", "C.follow.once")
def test_a_storm_under_a_follow_costs_no_byte(own_server: OutliveServer) -> None:
    """STORM_KILLS and STORM_SEED size and repeat it.

    The command writes, rests a moment, and writes on until told.
    """
    seed = int(os.environ.get("STORM_SEED", str(random.SystemRandom().randrange(1 << 30))))
    dice = random.Random(seed)
    over = threading.Event()

    def storm() -> None:
        try:
            for _ in range(_BLOWS):
                over.wait(dice.uniform(0.0, 0.4))
                _strike(own_server, dice)
        finally:
            over.set()

    thread = threading.Thread(target=storm)
    digest, size = hashlib.sha256(), 0
    flag = own_server.state_dir.with_name("over")
    command = f"until [ -e '{flag}' ]; do seq {_LINES}; sleep 0.05; done; exit 7"
    with Client(own_server.state_dir, start_server=False) as client:
        process = client.start(command, output_limit=1 << 40)
        thread.start()
        for item in process.follow():
            assert isinstance(item, Output), f"seed {seed}"
            digest.update(item.data)
            size += len(item.data)
            assert item.cursor.stdout == size
            if over.is_set():
                flag.touch()
        thread.join(60)
        assert process.wait().exit_code == 7, f"seed {seed}"
    once = b"".join(b"%d\n" % number for number in range(1, _LINES + 1))
    expected = hashlib.sha256()
    rounds, rest = divmod(size, len(once))
    for _ in range(rounds):
        expected.update(once)
    assert (rest, digest.hexdigest()) == (0, expected.hexdigest()), f"seed {seed}"
    print(f"{size / 1e6:.0f} MB over {_BLOWS} blows, seed {seed}")
