"""Paced streams: how long a line takes from the command's write to the client's read."""

import json
import subprocess
from contextlib import ExitStack

from bench import proc
from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive
from bench.servers import Endpoint, Server, naive, open_available, websocketd

_RATE = 1000
_WARM_MS = 1000
_ENDING_MS = 1500
_ENOUGH = 0.99  # of the lines have to arrive in time, or nothing was measured
_LINE = "us of all processes, a line"


def run_single(bench: Bench) -> Section:
    """One stream of 1000 lines a second."""
    section = Section("single", "one stream x 1000 lines/s: write to read", baseline="naive")
    _run(bench, section, servers={"naive": naive, "websocketd": websocketd, "outlive": outlive}, count=1)
    section.judge("single_p50", "ours", unit="ms p50")
    return section


def run_streams10(bench: Bench) -> Section:
    """Ten streams of 1000 lines a second."""
    section = Section("streams10", "10 streams x 1000 lines/s: write to read", baseline="naive")
    _run(bench, section, servers={"naive": naive, "websocketd": websocketd, "outlive": outlive}, count=10)
    section.judge("streams10_p50", "ours", unit="ms p50")
    section.judge("streams10_p99", "ours", unit="ms p99")
    return section


def run_streams50(bench: Bench) -> Section:
    """Fifty streams of 1000 lines a second."""
    section = Section("streams50", "50 streams x 1000 lines/s: write to read", baseline="naive")
    _run(bench, section, servers={"naive": naive, "websocketd": websocketd, "outlive": outlive}, count=50)
    section.judge("streams50_p50", "ours", unit="ms p50")
    section.judge("streams50_p99", "ours", unit="ms p99")
    section.judge("streams50_late", "ours", unit="ms p99", against="websocketd")
    section.judge("streams50_cpu", "ours", unit=_LINE, against="websocketd")
    return section


def run_streams100(bench: Bench) -> Section:
    """A hundred streams of 1000 lines a second, two by two.

    A hundred writers that sleep before each line take all of two virtual cores for sleeping alone, whatever
    reads them (0.8 of a core for fifty; measured with their output in /dev/null): what was measured then was
    the scheduler.
    """
    section = Section("streams100", "100 streams x 1000 lines/s: write to read", baseline="naive")
    _run(bench, section, servers={"naive": naive, "outlive": outlive}, count=100, burst=2)
    section.judge("streams100_naive", "ours", unit="ms p50", against="naive")
    return section


def _run(bench: Bench, section: Section, *, servers: dict[str, Server], count: int, burst: int = 1) -> None:
    for label in alternate(list(servers), bench.pick(5, 1)):
        # A server of its own each time: streams of the last measurement may still be ending.
        with ExitStack() as stack:
            only = {label: servers[label]}
            for endpoint in open_available(stack, bench, section=section, servers=only).values():
                bench.say(f"{section.name}: {endpoint.label}")
                _measure(bench, section, endpoint=endpoint, count=count, burst=burst)


def _measure(bench: Bench, section: Section, *, endpoint: Endpoint, count: int, burst: int) -> None:
    measure_ms = bench.pick(5000, 2000)
    lines = _RATE * (_WARM_MS + measure_ms + _ENDING_MS) // 1000
    text = endpoint.request(bench.native.emit("stamps", _RATE, lines, burst))
    words = [bench.native.path("streams"), str(endpoint.port), endpoint.path, text, str(count)]
    words += [str(_WARM_MS), str(measure_ms), *endpoint.flags]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        try:
            before = _after_line(client, "begin", endpoint)
            after = _after_line(client, "end", endpoint)
            measured = json.loads(client.stdout.readline())
        finally:
            client.kill()
    wanted = count * measure_ms * _RATE // 1000
    note = f"{measured['lines']} of {wanted} lines in time"
    if measured["lines"] < wanted * _ENOUGH:
        # Times of the lines that came say nothing about those that did not.
        section.notes.append(f"{endpoint.label}: not measured, {note}")
        return
    for share in ("p50", "p99"):
        section.add(endpoint.label, f"ms {share}", value=measured[f"{share}_ns"] / 1e6, note=note)
    spent_s = sum(after.values()) - sum(before.values())
    section.add(endpoint.label, _LINE, value=spent_s / measured["lines"] * 1e6)
    for name, used in after.items():
        percent = (used - before[name]) / (measure_ms / 1000) * 100
        section.add(endpoint.label, f"% of a core: {name}", value=percent)


def _after_line(client: subprocess.Popen[str], line: str, endpoint: Endpoint) -> dict[str, float]:
    """Wait for a line of the client, then return the processor time that each server process has used."""
    assert client.stdout is not None
    if client.stdout.readline().strip() != line:
        raise RuntimeError(f"{endpoint.label}: the streams did not run")
    return {name: proc.cpu_s(pid) for name, pid in endpoint.pids.items()}
