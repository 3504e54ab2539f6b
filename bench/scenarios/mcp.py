"""Tool calls over MCP: how long a short command takes from the request to its result."""

from collections.abc import Mapping
from contextlib import ExitStack

from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive_mcp
from bench.servers import Endpoint, mcp_python, mcp_typescript, open_available

_PEERS = {"TypeScript SDK": mcp_typescript, "Python SDK": mcp_python}
_ARGUMENTS = '{"command":"echo hi"}'
_WANTED = "hi\\"  # what was printed, up to the escape of its newline


def run_echo(bench: Bench) -> Section:
    """`echo hi` by `command_execute`, one call at a time, against the smallest servers on both official
    SDKs.
    """
    section = Section("mcp_echo", "`echo hi` by an MCP tool call over HTTP, one at a time")
    count = bench.pick(300, 100)
    with ExitStack() as stack:
        servers = {**_PEERS, "outlive": outlive_mcp}
        lanes = list(open_available(stack, bench, section=section, servers=servers).values())
        for lane in lanes:
            _calls(bench, lane, count)  # V8 compiles what is hot, the SDKs build their validators
        for lane in alternate(lanes, bench.pick(9, 3)):
            bench.say(f"mcp_echo: {lane.label}")
            measured = _calls(bench, lane, count)
            section.add(lane.label, "ms p50", value=measured["p50_ns"] / 1e6)
            section.add(lane.label, "ms p99", value=measured["p99_ns"] / 1e6)
    medians = {label: section.row_median(label, "ms p50") or float("inf") for label in _PEERS}
    section.baseline = min(medians, key=lambda label: medians[label])
    if float("inf") not in medians.values():  # which is the faster one, only both can tell
        section.judge("mcp_echo", "ours", unit="ms p50", against=section.baseline)
    return section


def _calls(bench: Bench, endpoint: Endpoint, count: int) -> Mapping[str, int]:
    where = (endpoint.port, endpoint.path)
    measured = bench.native.run("calls", *where, "command_execute", _ARGUMENTS, _WANTED, count)
    if measured["failed"]:
        raise RuntimeError(f"{endpoint.label}: {measured['failed']} of {count} calls failed")
    return measured
