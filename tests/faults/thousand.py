"""A thousand live processes: `python -m tests.faults.thousand [--processes N]`.

Prints how fast a new supervisor serves, how fast it has all of them again and what the keeper costs in
memory, and checks every exit code. Own memory is what no file is behind.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from outlive.core.identity import ProcessId, id_to_bytes
from outlive.protocols.keeper import encode_spec
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import end, own_memory_bytes

_KILLS = 5
_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Recovered:
    """How long after a supervisor's death the next one had answered a status, had started a command, had told
    of all.
    """

    status_s: float
    start_s: float
    all_s: float


@dataclass(slots=True)
class Figures:
    """What was measured; `faults` must be empty. Times in seconds, sizes in bytes."""

    processes: int
    starting_s: float = 0.0
    recovered: list["Recovered"] = field(default_factory=list)
    shim_bytes: int = 0
    recovered_shim_bytes: int = 0
    supervisor_bytes: int = 0
    guardian_bytes: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the figures in a few lines."""
        text = (
            f"{self.processes} processes started in {self.starting_s:.2f} s"
            f" ({self.processes / self.starting_s:.0f}/s, {_AT_ONCE} at a time)\n"
            f"supervisor killed, a status answered after {_ms(one.status_s for one in self.recovered)} ms\n"
            f"supervisor killed, a command started after {_ms(one.start_s for one in self.recovered)} ms\n"
            f"supervisor killed, all seen again after {_ms(one.all_s for one in self.recovered)} ms\n"
        )
        if not self.processes:
            return text + f"{len(self.faults)} faults"
        total = self.shim_bytes + self.supervisor_bytes + self.guardian_bytes
        return (
            f"{text}own memory a process: {total / self.processes / 1024:.0f} KB"
            f" (shim {self.shim_bytes / self.processes / 1024:.0f} KB,"
            f" {self.recovered_shim_bytes / self.processes / 1024:.0f} KB after {_KILLS} supervisors,"
            f" supervisor {self.supervisor_bytes / self.processes / 1024:.1f} KB,"
            f" guardian {self.guardian_bytes / self.processes / 1024:.1f} KB)\n"
            f"{len(self.faults)} faults"
        )


def _start(house: House, count: int, gate: Path) -> dict[ProcessId, int]:
    """Start commands that wait at a FIFO: they cost no processor time and all go on at once."""
    codes: dict[ProcessId, int] = {}
    waiting: list[int] = []
    for number in range(count):
        code = number % 256
        process_id, spec = house.spec(*sh(f"read line < {gate}; exit {code}"))
        codes[process_id] = code
        raw = encode_spec(spec)
        waiting.append(house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw)))
        if len(waiting) == _AT_ONCE:
            assert house.client.reply(waiting.pop(0))["ok"]
    for request in waiting:
        assert house.client.reply(request)["ok"]
    return codes


def _recover(house: House, keys: set[bytes]) -> Recovered:
    """Kill the supervisor.

    Return how long it took until the next one served, and until it had told of every process.
    """
    house.wait_redundant()
    supervisor = house.supervisor()
    house.client.bells.clear()
    began = time.monotonic()
    end(supervisor)
    house.client.connect()
    house.client.ask("status")
    status_s = time.monotonic() - began
    house.start(*sh(":"))
    start_s = time.monotonic() - began
    while not keys <= house.client.bells.keys():
        house.client.listen(0.02)
    return Recovered(status_s, start_s, time.monotonic() - began)


def _ms(times: Iterable[float]) -> str:
    return ", ".join(f"{seconds * 1000:.0f}" for seconds in times)


def thousand(state_dir: Path, *, processes: int = 1000) -> Figures:
    """Start, kill the supervisor a few times, measure, let all end, check."""
    figures = Figures(processes=processes)
    with House(state_dir) as house:
        gate = state_dir.with_name("gate")
        os.mkfifo(gate)
        began = time.monotonic()
        codes = _start(house, processes, gate)
        figures.starting_s = time.monotonic() - began
        keys = {id_to_bytes(process_id) for process_id in codes}
        house.wait_redundant()
        busy = [record.shim_pid for process_id in codes if (record := house.pid_record(process_id))]
        figures.shim_bytes = sum(map(own_memory_bytes, busy))
        figures.recovered = [_recover(house, keys) for _ in range(_KILLS)]
        house.wait_redundant()
        figures.recovered_shim_bytes = sum(map(own_memory_bytes, busy))
        figures.supervisor_bytes = own_memory_bytes(house.supervisor())
        figures.guardian_bytes = own_memory_bytes(house.guardian())
        descriptor = os.open(gate, os.O_RDWR)  # for writing alone it would wait for a reader
        with open(descriptor, "w") as lines:
            lines.write("\n" * processes)  # each shell takes one
            lines.flush()
            for process_id, code in codes.items():
                house.client.wait_done(process_id)
                if (found := house.wire_code(process_id)) != code:
                    figures.faults.append(f"{process_id} ended with {found}, not {code}")
        wrong = {key.hex(): count for key, count in house.client.completions.items() if count != 1}
        figures.faults += [f"{key} completed {count} times" for key, count in wrong.items()]
        until(lambda: house.status()["processes"] == 0, "an empty keeper")
    return figures


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.thousand", description=__doc__)
    parser.add_argument("--processes", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="thousand") as folder:
        figures = thousand(Path(folder) / "state", processes=options.processes)
    print(figures)
    for fault in figures.faults:
        print("FAULT", fault)
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(_main())
