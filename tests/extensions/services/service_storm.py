"""The storm over services: `python -m tests.extensions.services.service_storm --kills 100 --seed N`.

Services crash and rest while client, server, supervisor and guardian are killed in random order, also two of
them at once. In the end no service has run twice at a time, none is missing, none has rested for less than
its policy says, and each output is whole.
"""

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlive.client import Client, Output, Process
from tests.faults.returning import server_pid, stop_server, until_back
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.processes import end, is_alive
from tests.support.server import OutliveServer, outlive_command

_BODY = Path(__file__).with_name("service_body.py")
_FIRST_S, _MOST_S = 0.3, 6.0
# A run that took so long by its own notes may have been as long as the longest rest, and begun the rests
# anew.
_LONG_RUN_S = 2.0
_LINES = 60
_PATIENCE_S = 90.0
# How a storm's blows fall: which parts die at the same moment. Never all three: then nothing is left that
# could begin.
_BLOWS = (
    ("server",),
    ("server",),
    ("supervisor",),
    ("guardian",),
    ("supervisor", "guardian"),
    ("server", "guardian"),
    ("server", "supervisor"),
    ("client",),
)


@dataclass(slots=True)
class ServiceReport:
    """What a storm has found."""

    blows: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def _declared(folder: Path) -> dict[str, dict[str, Any]]:
    def body(name: str, lines: int, code: int) -> list[str]:
        return [sys.executable, "-S", str(_BODY), str(folder), name, str(lines), str(code)]

    backoff = {"first": _FIRST_S, "most": _MOST_S}
    stays = {
        f"stays-{number}": {"command": body(f"stays-{number}", _LINES, -1), "restart": "always"}
        for number in range(3)
    }
    crashes = {
        f"crashes-{number}": {
            "command": body(f"crashes-{number}", _LINES * number, 1),
            "restart": "on-failure" if number % 2 else "always",
            "backoff": backoff,
        }
        for number in range(4)
    }
    job = {"command": body("job", 5, 0), "ready": {"exit": True}}
    last = {"command": body("last", 5, -1), "after": ["job", "stays-0"], "ready": {"text": "last 4"}}
    return {**stays, **crashes, "job": job, "last": last}


class _Storm:
    """One state folder, its house, and what is killed there."""

    def __init__(self, state_dir: Path, house: House, folder: Path, *, seed: int) -> None:
        self._state_dir = state_dir
        self._house = house
        self._folder = folder
        self._random = random.Random(f"services/{seed}")
        self._client: subprocess.Popen[bytes] | None = None

    def strike(self, report: ServiceReport) -> None:
        """Kill some parts; what is needed for the next blow is there again when this returns."""
        parts = self._random.choice(_BLOWS)
        self._house.wait_redundant()
        until(lambda: server_pid(self._state_dir), "a server", patience_s=_PATIENCE_S)
        pids = {
            "server": server_pid(self._state_dir),
            "supervisor": self._house.supervisor(),
            "guardian": self._house.guardian(),
        }
        if "client" in parts:
            self._kill_client()
        else:
            for part in parts:
                end(pids[part])
            until(lambda: not any(is_alive(pids[part]) for part in parts), "the ends", patience_s=_PATIENCE_S)
            if "supervisor" in parts or "guardian" in parts:
                self._house.wait_redundant()
        report.blows["+".join(parts)] += 1
        # Often before the server has come back, and often in the middle of a rest.
        time.sleep(self._random.expovariate(1.0))

    def _kill_client(self) -> None:
        if self._client is not None and self._client.poll() is None:
            self._client.kill()
            self._client.wait(30)
        # `logs -f` changes nothing of the services, as `up` would, which starts a job anew.
        environment = {**os.environ, "OUTLIVE_STATE_DIR": str(self._state_dir)}
        self._client = subprocess.Popen(
            [*outlive_command(), "logs", "-f", "--no-start"],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.kill()
            self._client.wait(30)


def service_storm(state_dir: Path, *, kills: int, seed: int) -> ServiceReport:
    """Run one storm on a fresh state folder; nothing is left behind."""
    folder = state_dir.with_name(state_dir.name + ".project")
    folder.mkdir()
    report = ServiceReport()
    declared = _declared(folder)
    with OutliveServer(state_dir) as server:
        with Client(state_dir, start_server=False) as client:
            client.services.up(str(folder), declared, environment={"PATH": os.environ["PATH"]})
        house = House(state_dir)
        house.client.connect()
        storm = _Storm(state_dir, house, folder, seed=seed)
        try:
            until(lambda: all(_notes(folder, name) for name in declared if name != "last"), "the first runs")
            server.kill()
            report.blows["server"] += 1
            while sum(report.blows.values()) < kills:
                storm.strike(report)
            until_back(state_dir, after=0)
            _check_that_all_goes_on(folder, report)
            with Client(state_dir, start_server=False) as client:
                _check(client, folder, declared, report)
        finally:
            storm.close()
            house.client.close()
            stop_server(state_dir)
    return report


def _check_that_all_goes_on(folder: Path, report: ServiceReport) -> None:
    """What crashes has one more run after the last blow."""
    names = ("crashes-0", "crashes-1", "crashes-2", "crashes-3")
    before = {name: len(_begins(folder, name)) for name in names}

    def late() -> list[str]:
        return [name for name in names if len(_begins(folder, name)) == before[name]]

    try:
        until(lambda: not late(), "one more run of each", patience_s=_PATIENCE_S)
    except AssertionError:
        report.faults += [f"{name} was not started again" for name in late()]


def _check(client: Client, folder: Path, declared: dict[str, dict[str, Any]], report: ServiceReport) -> None:
    until(
        lambda: _states(client, folder)["last"] == "ready",
        "the last service",
        patience_s=_PATIENCE_S,
    )
    for name in ("stays-0", "stays-1", "stays-2", "last"):
        if (count := len(_begins(folder, name))) != 1:
            report.faults.append(f"{name} has begun {count} times")
    client.services.down(str(folder), grace_s=0)
    until(
        lambda: {*_states(client, folder).values()} <= {"stopped", "done"},
        "their ends",
        patience_s=_PATIENCE_S,
    )
    for name in declared:
        report.runs[name] = len(_begins(folder, name))
        report.faults += [
            f"{name}: ran twice at a time" for one in _notes(folder, name) if one["event"] == "twice"
        ]
        report.faults += _short_rests(folder, name) if name.startswith("crashes") else []
        report.faults += _outputs(client, folder, name, int(declared[name]["command"][5]))


def _states(client: Client, folder: Path) -> dict[str, str]:
    (stack,) = client.services.list(str(folder))
    return {one.name: one.state for one in stack.services}


def _short_rests(folder: Path, name: str) -> list[str]:
    """Return the rests that were shorter than the policy says."""
    notes = _notes(folder, name)
    found, tries = [], 0
    for before, after in itertools.pairwise(notes):
        rested_s = after["at"] - before["at"]
        if (before["event"], after["event"]) == ("begin", "end") and rested_s > _LONG_RUN_S:
            tries = 0
        elif (before["event"], after["event"]) == ("end", "begin"):
            least_s = min(_MOST_S, _FIRST_S * 2**tries)
            tries += 1
            if rested_s < least_s:
                found.append(f"{name}: rested {rested_s:.3f} s of {least_s:.3f}")
        elif before["event"] == after["event"]:
            found.append(f"{name}: {before['event']} follows itself")
    return found


def _outputs(client: Client, folder: Path, name: str, lines: int) -> list[str]:
    """Return what is wrong with the outputs of a service's processes, and with how many there are."""
    ended = {one["pid"] for one in _notes(folder, name) if one["event"] == "end"}
    infos = [one for one in client.list(tags={"service": name}, limit=1000) if one.pid is not None]
    found = []
    if len(infos) < (runs := len(_begins(folder, name))):
        found.append(f"{name}: {len(infos)} processes for {runs} runs")
    for info in infos:
        text = _text(client.get(info.process_id))
        numbers = [line.removeprefix(f"{name} ") for line in text.decode().splitlines()]
        if numbers != [str(number) for number in range(len(numbers))]:
            found.append(f"{name} {info.process_id}: the output is torn")
        if info.pid in ended and len(numbers) != lines:
            found.append(f"{name} {info.process_id}: {len(numbers)} of {lines} lines")
    return found


def _text(process: Process) -> bytes:
    with process.follow() as items:
        return b"".join(item.data for item in items if isinstance(item, Output))


def _begins(folder: Path, name: str) -> list[dict[str, Any]]:
    return [one for one in _notes(folder, name) if one["event"] == "begin"]


def _notes(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.notes"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.extensions.services.service_storm", description=__doc__
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storm") as folder:
        report = service_storm(Path(folder) / "state", kills=options.kills, seed=options.seed)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(_main())
