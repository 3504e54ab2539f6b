"""Who is killed when: the hand of a storm. A shim and the supervisor never die at the same instant.

That pair is the one stated exception of the design: each holds the other's copies.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from tests.keeper.client import KeeperGone, until
from tests.keeper.house import House
from tests.support.processes import end, is_alive

_CHOICES = {"supervisor": 34, "guardian": 14, "shim": 30, "both": 14, "upgrade": 8, "stop": 14}
# An older kernel tells nobody but the parent: a guardian that died cannot leave notes about what it adopted.
_CHOICES_OLDER_KERNEL = {"supervisor": 45, "shim": 45, "upgrade": 10, "stop": 15}


class Hand:
    """Deals one blow at a time and waits until the keeper stands again."""

    def __init__(
        self, house: House, seed: int, *, living: Callable[[], list[str]], is_older_kernel: bool = False
    ) -> None:
        """Begin with a seed; `living` returns the ids of the processes whose shims may be struck."""
        self._house = house
        self._living = living
        self._random = random.Random(f"kills/{seed}")
        self._is_older_kernel = is_older_kernel
        self._choices = _CHOICES_OLDER_KERNEL if is_older_kernel else _CHOICES
        self.dealt: Counter[str] = Counter()

    def strike(self) -> str:
        """Choose and deal one blow; returns its name."""
        name = self._random.choices(list(self._choices), weights=list(self._choices.values()))[0]
        status = self._house.wait_redundant()
        guardian, supervisor = (_pid(status[role]) for role in ("guardian", "supervisor"))
        # Just after an answer the supervisor is at the same place every time: let it go on with its work.
        time.sleep(self._random.uniform(0.0, 0.01))
        match name:
            case "supervisor":
                self._house.kill(supervisor)
            case "guardian":
                self._house.kill(guardian)
            case "both":
                victims = [guardian, supervisor]
                self._random.shuffle(victims)
                for pid in victims:
                    end(pid)
                self._house.kill(*victims)
            case "shim":
                self._strike_shim()
            case "upgrade":
                with suppress(KeeperGone):
                    self._house.client.ask("retire")
                until(lambda: not is_alive(supervisor), "the retired supervisor's end")
            case "stop":
                self._stop(guardian, supervisor)
        self.dealt[name] += 1
        return name

    def _stop(self, guardian: int, supervisor: int) -> None:
        """Stop half of the shims and one of the two (SIGSTOP), as a command may; every other time kill one.

        No server is here to continue a supervisor whose guardian is dead.
        """
        stopped = self._random.choice([guardian, supervisor])
        for pid in self._house.shims():
            if self._random.random() < 0.5:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        os.kill(stopped, signal.SIGSTOP)
        if self._random.random() < 0.5:
            self._house.kill(
                supervisor if self._is_older_kernel else self._random.choice([stopped, supervisor])
            )

    def _strike_shim(self) -> None:
        """Kill a shim: usually one that owns a command, else any (idle, or holding for a dead one)."""
        house = self._house
        shims = set(house.shims())
        owners = {
            record.shim_pid: process_id
            for process_id in self._living()
            if (record := house.pid_record(process_id)) is not None and record.shim_pid in shims
        }
        if owners and self._random.random() < 0.8:
            house.kill_shim_of(owners[self._random.choice(sorted(owners))])
        elif shims:
            victim = self._random.choice(sorted(shims))
            if victim in owners:
                house.kill_shim_of(owners[victim])
            else:
                house.kill(victim)


def _pid(part: object) -> int:
    assert isinstance(part, dict)
    return int(part["pid"])
