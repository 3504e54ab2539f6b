"""Starting commands: one after the other, and many at a time."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack

from bench.context import Bench, peer_environment
from bench.measure import Section, alternate
from bench.product import outlive
from bench.servers import Endpoint, naive, open_available

_SERVERS = {"naive": naive, "outlive": outlive}
_AT_ONCE = 50
_ECHOES = 200


def run_true(bench: Bench) -> Section:
    """Time /bin/true from execute to completed, one at a time, against posix_spawn and waitpid in C."""
    count = bench.pick(300, 100)
    section = Section("true", "/bin/true, one at a time: execute to completed", baseline="posix_spawn in C")
    with ExitStack() as stack:
        opened = open_available(stack, bench, section=section, servers=_SERVERS)
        lanes: list[Endpoint | None] = [None, *opened.values()]
        for endpoint in opened.values():
            time_starts(bench, endpoint, command=["/bin/true"], at_once=1, total=30)
        for lane in alternate(lanes, bench.pick(5, 2)):
            bench.settle()
            if lane is None:
                measured = bench.native.run("spawn", count, "/bin/true")
            else:
                measured = time_starts(bench, lane, command=["/bin/true"], at_once=1, total=count)
            label = lane.label if lane else "posix_spawn in C"
            bench.say(f"true: {label}")
            section.add(label, "ms p50", value=measured["p50_ns"] / 1e6)
            section.add(label, "ms p99", value=measured["p99_ns"] / 1e6)
    section.judge("true_spawn", "ours", unit="ms p50", against="posix_spawn in C")
    return section


def run_echo(bench: Bench) -> Section:
    """200 times `echo hi` in a shell, 50 at a time, against asyncio in one process."""
    section = Section("echo", f"{_ECHOES} x `echo hi`, {_AT_ONCE} at a time", baseline="asyncio in-process")
    with ExitStack() as stack:
        opened = open_available(stack, bench, section=section, servers=_SERVERS)
        lanes: list[Endpoint | None] = [None, *opened.values()]
        for endpoint in opened.values():
            time_starts(bench, endpoint, command="echo hi", at_once=_AT_ONCE, total=_AT_ONCE)
        for lane in alternate(lanes, bench.pick(21, 5)):
            bench.settle()
            if lane is None:
                measured = _asyncio_floor()
            else:
                measured = time_starts(bench, lane, command="echo hi", at_once=_AT_ONCE, total=_ECHOES)
            label = lane.label if lane else "asyncio in-process"
            bench.say(f"echo: {label}")
            section.add(label, "starts/s", value=_ECHOES / (measured["elapsed_ns"] / 1e9))
    section.judge("echo_asyncio", "ours", unit="starts/s", against="asyncio in-process")
    return section


def time_starts(
    bench: Bench, endpoint: Endpoint, *, command: str | list[str], at_once: int, total: int
) -> Mapping[str, int]:
    """Execute a command `total` times, `at_once` at a time; return what the measuring program says.

    Raises:
        RuntimeError: A start failed.
    """
    where = (endpoint.port, endpoint.path, endpoint.request(command))
    measured = bench.native.run("starts", *where, at_once, total)
    if measured["failed"]:
        raise RuntimeError(f"{endpoint.label}: {measured['failed']} of {total} starts failed")
    return measured


def _asyncio_floor() -> Mapping[str, int]:
    words = ["-m", "bench.peers.asyncio_floor", str(_ECHOES), str(_AT_ONCE), "echo hi"]
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, env=peer_environment(), timeout=60, check=True
    )
    measured: dict[str, int] = json.loads(done.stdout)
    return measured
