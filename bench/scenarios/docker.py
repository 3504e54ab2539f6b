"""Docker mode: a start in a warm container beside a local one and `docker exec`, and a million lines from
inside.
"""

import os
from contextlib import ExitStack
from functools import partial

from bench.context import Bench
from bench.docker_api import Daemon, find_daemon
from bench.measure import Section, Unavailable, alternate
from bench.product import outlive_containers
from bench.scenarios.starts import time_starts
from bench.servers import Endpoint, measure_sink, open_available

_START = "ms, /usr/bin/true, p50"
_LINES = "ms, lines to the end"
_TRUE = ["/usr/bin/true"]
_LOCAL, _INSIDE, _EXEC, _PROGRAM = "local", "container", "docker exec by API", "docker exec by program"
# This machine's programs are used on both sides: the image's own are others.
_MOUNTS = ",".join(f"{path}:{path}:ro" for path in ("/usr", "/lib", "/lib64") if os.path.exists(path))


def run(bench: Bench) -> Section:
    """Time /usr/bin/true and `seq` in a warm container, here, and by the daemon's own exec, alternating."""
    lines = bench.pick(1_000_000, 300_000)
    section = Section(
        "docker", f"a warm container: /usr/bin/true; `seq 1 {lines}` followed to its end", baseline=_LOCAL
    )
    with ExitStack() as stack:
        try:
            daemon = find_daemon()
        except Unavailable as reason:
            section.notes.append(f"left out: {reason}")
            return section
        folder = stack.enter_context(bench.folder()) / "w"
        folder.mkdir()
        words = ("--docker-workspace", str(folder), "--docker-mounts", _MOUNTS)
        server = partial(outlive_containers, host=daemon.host, words=words)
        opened = open_available(stack, bench, section=section, servers={"outlive": server})
        for ours in opened.values():
            stack.callback(daemon.remove_all_of, folder)
            where = {"cwd": str(folder), "output": "binary"}
            local = ours.with_options(_LOCAL, backend="local", **where)
            inside = ours.with_options(_INSIDE, backend="docker", **where)
            for lane in (local, inside):
                time_starts(bench, lane, command=_TRUE, at_once=1, total=30)
            (container,) = daemon.containers_of(folder)
            _measure(bench, section, lanes=[local, inside], daemon=daemon, container=container, lines=lines)
    section.judge("docker_start", _INSIDE, unit=_START, against=_LOCAL)
    section.judge("docker_exec", _EXEC, unit=_START, against=_INSIDE)
    section.judge("docker_lines", _INSIDE, unit=_LINES, against=_LOCAL)
    return section


def _measure(
    bench: Bench, section: Section, *, lanes: list[Endpoint], daemon: Daemon, container: str, lines: int
) -> None:
    count = bench.pick(300, 100)
    for lane in alternate([*lanes, None], bench.pick(5, 3)):
        bench.say(f"docker: {lane.label if lane else _EXEC}")
        if lane is None:
            seconds = daemon.time_exec(container, _TRUE, count=bench.pick(20, 10))
            section.add(_EXEC, _START, value=seconds * 1e3)
            if (seconds_by_program := daemon.time_program(container, _TRUE, count=5)) is not None:
                section.add(_PROGRAM, _START, value=seconds_by_program * 1e3)
            continue
        measured = time_starts(bench, lane, command=_TRUE, at_once=1, total=count)
        section.add(lane.label, _START, value=measured["p50_ns"] / 1e6)
        for _ in range(3):
            measured = measure_sink(bench, lane, command=f"seq 1 {lines}")
            section.add(lane.label, _LINES, value=measured["elapsed_ns"] / 1e6)
