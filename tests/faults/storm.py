"""A kill storm: `python -m tests.faults.storm --kills 300 --seed N [--containers]`.

Forty processes write while supervisor, guardian and shims are killed at random and upgrades happen. Every log
must hold exactly what its writer should have written, every exit code must be right, every process must
complete once, and at the end no descriptor and no process may be left. With --containers half of them write
in containers, and server and Docker daemon are among the victims (tests.faults.server_storm).
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from outlive.core.identity import id_to_bytes
from outlive.protocols.keeper import Phase
from tests.faults.judging import Report, check_folder, leaks
from tests.faults.killing import Hand
from tests.faults.plans import Plan, Planner
from tests.faults.server_storm import container_storm
from tests.faults.walls import Walls
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.dockerd import Dockerd

_PATIENCE_S = 90.0


class _Storm:
    def __init__(self, house: House, *, seed: int, kills: int, at_a_time: int, is_older_kernel: bool) -> None:
        self._house = house
        self._client = house.client
        self._kills = kills
        self._at_a_time = at_a_time
        self._walls = Walls(house.state_dir)
        self._planner = Planner(seed, profiles=self._walls.profiles)
        self._hand = Hand(house, seed, living=lambda: list(self._running), is_older_kernel=is_older_kernel)
        self._pauses = random.Random(f"pauses/{seed}")
        self._running: dict[str, Plan] = {}
        self.report = Report(blows=self._hand.dealt)

    def run(self, say: Callable[[str], None]) -> None:
        began = time.monotonic()
        next_blow = began + 0.5
        last_progress = began
        while self._running or sum(self._hand.dealt.values()) < self._kills:
            goes_on = sum(self._hand.dealt.values()) < self._kills
            while goes_on and len(self._running) < self._at_a_time:
                self._start_one()
            self._client.listen(0.02)
            if self._check_ended():
                last_progress = time.monotonic()
            assert time.monotonic() - last_progress < _PATIENCE_S, f"stuck: {self._stuck()}"
            if goes_on and time.monotonic() > next_blow:
                name = self._hand.strike()
                count = sum(self._hand.dealt.values())
                if count % 50 == 0:
                    say(f"{count} kills, last {name}; {self.report.processes} processes checked")
                next_blow = time.monotonic() + self._pauses.expovariate(12.0)
        self.report.seconds = time.monotonic() - began
        self._check_keeper()

    def _stuck(self) -> list[str]:
        return [
            f"{process_id} {self._client.bell(process_id)} {plan}"
            for process_id, plan in self._running.items()
        ]

    def _start_one(self) -> None:
        plan = self._planner.deal()
        process_id = self._house.start(
            *plan.argv,
            stdio=plan.stdio,
            cwd=str(self._walls.folder),
            confinement=self._walls.steps(plan.profile),
        )
        self._running[process_id] = plan

    def _check_ended(self) -> int:
        ended = [
            process_id
            for process_id in self._running
            if (bell := self._client.bell(process_id)) is not None and bell.phase == Phase.DONE
        ]
        for process_id in ended:
            self._check(process_id, self._running.pop(process_id))
        return len(ended)

    def _check(self, process_id: str, plan: Plan) -> None:
        self.report.processes += 1
        self.report.profiles[plan.profile.value] += 1
        self.report.bytes += plan.out + plan.err
        self.report.faults += check_folder(self._house, process_id, plan)
        for stream in ("out", "err"):
            log = self._house.folder(process_id) / stream
            if log.exists():
                os.truncate(log, 0)  # a long storm must not fill the disk

    def _check_keeper(self) -> None:
        client, report = self._client, self.report
        until(lambda: self._house.status()["processes"] == 0, "an empty keeper")
        report.faults += [f"{bell} after it was done" for bell in client.setbacks]
        report.faults += [
            f"{process_id} vanished without a completion mark" for process_id in client.vanished
        ]
        report.faults += [
            f"{key.hex()} completed {count} times" for key, count in client.completions.items() if count != 1
        ]
        if sum(client.completions.values()) != report.processes:
            report.faults.append(
                f"{sum(client.completions.values())} completions of {report.processes} processes"
            )
        report.faults += leaks(self._house)


def storm(
    state_dir: Path,
    *,
    kills: int,
    seed: int,
    at_a_time: int = 40,
    is_older_kernel: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> Report:
    """Run one storm on a fresh keeper and return what was seen; nothing is left behind."""
    env = {"OUTLIVE_DEGRADE": "pidfd_info"} if is_older_kernel else {}
    with House(state_dir, env=env) as house:
        one = _Storm(house, seed=seed, kills=kills, at_a_time=at_a_time, is_older_kernel=is_older_kernel)
        one.run(say)
        keys = {id_to_bytes(name.name) for name in Path(house.layout.processes).iterdir()}
        if len(keys) != one.report.processes:
            one.report.faults.append(f"{len(keys)} folders for {one.report.processes} starts")
    return one.report


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--older-kernel", action="store_true", help="as without PIDFD_GET_INFO")
    parser.add_argument(
        "--containers", action="store_true", help="half in containers, of a daemon of its own (root)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storm") as folder:
        if options.containers:
            dockerd = Dockerd(Path(folder) / "d")
            dockerd.start()
            try:
                dockerd.make_images()
                state = Path(folder) / "state"
                report = container_storm(state, dockerd, kills=options.kills, seed=options.seed)
            finally:
                dockerd.stop()
            return report.tell()
        report = storm(
            Path(folder) / "state",
            kills=options.kills,
            seed=options.seed,
            is_older_kernel=options.older_kernel,
            say=lambda text: print(text, flush=True),
        )
    return report.tell()


if __name__ == "__main__":
    sys.exit(_main())
