"""What is found after a storm over a fleet: how often each command was started, what its folders hold, and
whose turn came when.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.extensions.fleet.storm_fleet import StormFleet
from tests.faults.judging import Report, check_folder
from tests.faults.turns import Look, Turn, look_faults, most_passed
from tests.faults.viewers import Viewer


def begun_at(path: Path) -> dict[str, list[int]]:
    """Return when each writer has begun, by its seed."""
    found: dict[str, list[int]] = {}
    for line in path.read_text().splitlines():
        seed, at = line.split()
        found.setdefault(seed, []).append(int(at))
    return found


def check_starts(
    fleet: StormFleet, viewers: Sequence[Viewer], begun: Mapping[str, list[int]], report: Report
) -> None:
    """Judge by the machines how often each command was started, and what their folders hold."""
    wanted = {viewer.process_id for viewer in viewers if viewer.process_id}
    places: Counter[str] = Counter()
    for name, house in fleet.houses.items():
        there = {path.name for path in Path(house.layout.processes).iterdir()}
        if name != "local":  # the gateway has a folder of each
            places.update(there)
            report.profiles[name] += len(there)
            report.faults += [f"{name} has {one}, of which no client knows" for one in sorted(there - wanted)]
        report.faults += [
            f"{name}: {fault}"
            for viewer in viewers
            if viewer.process_id in there
            for fault in check_folder(house, viewer.process_id, viewer.plan)
        ]
    report.profiles["the gateway"] += len(wanted) - len(places)
    report.faults += [f"{one} was started on {count} nodes" for one, count in places.items() if count > 1]
    for viewer in viewers:
        if (count := len(begun.get(viewer.plan.seed, []))) != 1:
            report.faults.append(f"{viewer.process_id} {viewer.plan.seed} has begun {count} times")


def check_turns(
    fleet: StormFleet,
    viewers: Sequence[Viewer],
    begun: Mapping[str, list[int]],
    looks: Sequence[Look],
    *,
    places: int,
) -> tuple[str, list[str]]:
    """Judge the order; return what was seen in one sentence, and the faults."""
    folders = Path(fleet.houses["local"].layout.processes)
    turns = {
        viewer.process_id: Turn(
            process_id=viewer.process_id,
            asked_ns=viewer.asked_ns,
            answered_ns=viewer.answered_ns,
            placed_ns=(folders / viewer.process_id / "spec").stat().st_mtime_ns,
            begun_ns=begun[viewer.plan.seed][0],
        )
        for viewer in viewers
        if viewer.process_id and viewer.plan.seed in begun
    }
    faults = look_faults(looks, turns)
    passed, which = most_passed(list(turns.values()))
    if passed > places:
        faults.append(f"{which} was passed by {passed} commands that came later, with {places} places")
    waited = sum(len(look.waiting) for look in looks)
    full = sum(bool(look.waiting) for look in looks)
    text = f"{full} of {len(looks)} looks at a full fleet, {waited // max(1, full)} waited then"
    return f"{text}; passed by {passed} at most, of {places} places", faults
