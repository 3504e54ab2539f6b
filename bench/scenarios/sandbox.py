"""What a sandbox costs a start: /bin/true in each profile, side by side, against the open one."""

from contextlib import ExitStack

from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive
from bench.scenarios.starts import time_starts
from bench.servers import open_available

_OPEN = "open"
_PROFILES = (_OPEN, "guarded", "workspace", "offline", "sealed")


def run(bench: Bench) -> Section:
    """Time /bin/true from execute to completed in each profile, one at a time."""
    count = bench.pick(200, 60)
    section = Section("sandbox", "/bin/true in each sandbox profile: execute to completed", baseline=_OPEN)
    with ExitStack() as stack:
        workspace = stack.enter_context(bench.folder())
        opened = open_available(stack, bench, section=section, servers={"outlive": outlive})
        lanes = []
        for endpoint in opened.values():
            for profile in _PROFILES:
                lane = endpoint.with_options(profile, profile=profile, cwd=str(workspace))
                try:
                    time_starts(bench, lane, command=["/bin/true"], at_once=1, total=20)
                except RuntimeError as error:  # this machine lacks what the profile needs
                    section.notes.append(f"{profile} left out: {error}")
                    continue
                lanes.append(lane)
        for lane in alternate(lanes, bench.pick(5, 3)):
            measured = time_starts(bench, lane, command=["/bin/true"], at_once=1, total=count)
            bench.say(f"sandbox: {lane.label}")
            section.add(lane.label, "ms p50", value=measured["p50_ns"] / 1e6)
    plain = section.row_median(_OPEN, "ms p50")
    for profile in _PROFILES[1:]:
        value = section.row_median(profile, "ms p50")
        if plain is not None and value is not None:
            section.add(profile, "ms added", value=value - plain)
    return section
