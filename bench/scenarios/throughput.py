"""A million short lines through every server: what a line costs."""

import hashlib
from contextlib import ExitStack

from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive
from bench.servers import Endpoint, measure_sink, naive, open_available, splice, websocketd
from bench.wire import Connection, drain

_SERVERS = {"naive": naive, "websocketd": websocketd, "outlive": outlive, "splice": splice}
_UNIT = "lines/s"
_ONE_PER_LINE = ("naive", "websocketd", "ours, lines")
_PACED = ", paced"


def run(bench: Bench) -> Section:
    """`seq 1 1000000`: lines a second from the request to the completion."""
    lines = bench.pick(1_000_000, 200_000)
    section = Section("throughput", f"seq 1 {lines}: from execute to the completion", baseline="naive")
    with ExitStack() as stack:
        opened = open_available(stack, bench, section=section, servers=_SERVERS)
        lanes = _lanes(opened)
        for lane in lanes:
            _check(bench, lane)
        contests = [(lane, False) for lane in lanes]
        contests += [(lane, True) for lane in lanes if lane.label in _ONE_PER_LINE]
        for lane, is_paced in alternate(contests, bench.pick(3, 1)):
            # The naive server takes as long as all others together; a fast run is short, hence noisy.
            for _ in range(1 if lane.label == "naive" else 3):
                bench.say(f"throughput: {lane.label}{_PACED * is_paced}")
                _measure(bench, section, lane=lane, lines=lines, is_paced=is_paced)
    section.judge("lines_naive", "ours, lines", unit=_UNIT, against="naive")
    section.judge("lines_websocketd", "ours, lines", unit=_UNIT, against="websocketd")
    section.judge("lines_paced", f"ours, lines{_PACED}", unit=_UNIT, against=f"websocketd{_PACED}")
    section.judge("binary_splice", "ours, binary", unit=_UNIT, against="splice")
    section.notes.append(
        "paced = the client waits 0.3 ms after a short read: the kindest client for one send a line"
    )
    return section


def _lanes(opened: dict[str, Endpoint]) -> list[Endpoint]:
    lanes = [endpoint for label, endpoint in opened.items() if label != "outlive"]
    if "outlive" in opened:
        ours = opened["outlive"]
        lanes += [ours.with_options(f"ours, {name}", output=name) for name in ("lines", "chunk", "binary")]
    return lanes


def _check(bench: Bench, lane: Endpoint) -> None:
    """See that a contestant delivers what it claims; also pays for its imports and tables."""
    measure_sink(bench, lane, command="seq 1 1000")
    if lane.dialect != "jsonrpc":
        return
    expected = "".join(f"{number}\n" for number in range(1, 100_001))
    with Connection(lane.port, lane.path) as client:
        client.receive_until("connected")
        client.send("execute", {"command": "seq 1 100000", **lane.options})
        if drain(client) != hashlib.sha256(expected.encode()).hexdigest():
            raise RuntimeError(f"{lane.label} did not deliver every byte")


def _measure(bench: Bench, section: Section, *, lane: Endpoint, lines: int, is_paced: bool) -> None:
    measured = measure_sink(bench, lane, command=f"seq 1 {lines}", is_paced=is_paced)
    if lane.label in _ONE_PER_LINE and measured["frames"] < lines:
        raise RuntimeError(f"{lane.label} delivered {measured['frames']} frames for {lines} lines")
    note = f"{measured['frames']} frames" if measured["frames"] else "no frames"
    label = lane.label + _PACED * is_paced
    section.add(label, _UNIT, value=lines / (measured["elapsed_ns"] / 1e9), note=note)
    section.add(label, "ms to first output", value=measured["first_ns"] / 1e6)
