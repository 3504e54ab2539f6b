"""A kill storm: `python -m tests.faults.storm --kills 300 --seed N`.

Forty processes write while supervisor, guardian and shims are killed at random and upgrades happen. Every log must
hold exactly what its writer should have written, every exit code must be right, every process must complete once,
and at the end no descriptor and no process may be left.
"""

import argparse
import hashlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from outlive.core.identity import id_to_bytes
from outlive.protocols.keeper import Phase
from tests.faults.killing import Hand
from tests.faults.plans import Plan, Planner
from tests.faults.walls import Walls
from tests.keeper.client import until
from tests.keeper.house import House

__all__ = ["Report", "check_folder", "storm"]

_PATIENCE_S = 90.0


@dataclass(slots=True)
class Report:
    """What a storm saw; `faults` must be empty."""

    processes: int = 0
    bytes: int = 0
    seconds: float = 0.0
    blows: Counter[str] = field(default_factory=Counter)
    profiles: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the summary in one line."""
        profiles = ", ".join(f"{count} {name}" for name, count in sorted(self.profiles.items()))
        blows = ", ".join(f"{count} {name}" for name, count in sorted(self.blows.items()))
        return (
            f"{sum(self.blows.values())} kills ({blows}) in {self.seconds:.1f} s: {self.processes} processes,"
            f" {self.bytes / 1e6:.0f} MB, {len(self.faults)} faults ({profiles})"
        )


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
        report.faults += _leaks(self._house)


def check_folder(house: House, process_id: str, plan: Plan) -> list[str]:
    """Compare a completed process's folder with its plan; returns what is wrong."""
    wrong = []
    done = house.done(process_id)
    for stream in ("out", "err"):
        path = house.folder(process_id) / stream
        size, digest = plan.digest(stream)
        if stream == "err" and not path.exists():  # it is made with the first bytes
            path = Path(os.devnull)
        with path.open("rb") as file:
            found = (os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())
        if found != (size, digest):
            wrong.append(f"{stream}: {found[0]} bytes, not {size}, or damaged")
        if done[stream] != size:
            wrong.append(f"done says {done[stream]} for {stream}, not {size}")
    record = house.exit_record(process_id)
    code = -record.number if record.kind == "signaled" else record.number
    if record.kind not in {"exited", "signaled"} or code != plan.end:
        wrong.append(f"ended as {record}, not {plan.end}")
    if done.get("holder_lost"):
        wrong.append("its descriptors were held by nobody for a while")
    return [f"{process_id} {plan.kind} {plan.profile.value}: {text}" for text in wrong]


def _leaks(house: House) -> list[str]:
    """Return descriptors that a keeper with nothing to keep must not have."""
    wrong = []
    status = house.wait_redundant()
    for role in ("supervisor", "guardian"):
        part = status[role]
        assert isinstance(part, dict)
        links = []
        for fd in Path(f"/proc/{part['pid']}/fd").iterdir():
            with suppress(OSError):
                links.append(os.readlink(fd))
        sockets = sum(link.startswith("socket:") for link in links)
        kept = [
            link
            for link in links
            if link.startswith(("/dev/pt", "anon_inode:[pidfd]")) or "/processes/" in link
        ]
        pipes = sum(link.startswith("pipe:") for link in links)
        # idle shims, prepared folders, own; each one's wake pipe, and that of the guardian's warm-up
        most = {"supervisor": (64 + 256 + 8, 2), "guardian": (3, 4)}[role]
        if kept or sockets > most[0] or pipes > most[1]:
            wrong.append(f"{role} leaks: {sockets} sockets, {pipes} pipes, {kept}")
    return wrong


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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storm") as folder:
        report = storm(
            Path(folder) / "state",
            kills=options.kills,
            seed=options.seed,
            is_older_kernel=options.older_kernel,
            say=lambda text: print(text, flush=True),
        )
    print(report)
    for fault in report.faults:
        print("FAULT", fault)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(_main())
