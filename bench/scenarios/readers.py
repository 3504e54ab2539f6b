"""A million short lines into Python programs: what a reader that is no C program gets."""

import json
import subprocess
import sys
from contextlib import ExitStack

from bench.context import Bench, peer_environment
from bench.measure import Section, alternate
from bench.product import outlive
from bench.servers import Endpoint, naive, open_available

_UNIT = "lines/s"
_PLAIN = "naive server, plain reader"
_PATIENCE_S = 300


def run(bench: Bench) -> Section:
    """`seq 1 1000000`: lines a second from the request to the completion, counted by Python programs."""
    lines = bench.pick(1_000_000, 200_000)
    section = Section("readers", f"seq 1 {lines} into a Python program", baseline=_PLAIN)
    with ExitStack() as stack:
        servers = {"naive": naive, "outlive": outlive}
        opened = open_available(stack, bench, section=section, servers=servers)
        lanes = [(_PLAIN, "plain", opened["naive"])]
        if "outlive" in opened:
            ours = opened["outlive"]
            lanes += [
                ("ours, plain reader", "plain", ours),
                ("ours, Client", "blocking", ours),
                ("ours, AsyncClient", "asyncio", ours),
            ]
        for label, kind, endpoint in alternate(lanes, bench.pick(3, 1)):
            bench.say(f"readers: {label}")
            section.add(label, _UNIT, value=_measure(kind, endpoint, lines=lines))
    section.judge("client_plain", "ours, Client", unit=_UNIT, against=_PLAIN)
    return section


def _measure(kind: str, endpoint: Endpoint, *, lines: int) -> float:
    url = f"ws://127.0.0.1:{endpoint.port}{endpoint.path}"
    said = subprocess.run(
        [sys.executable, "-m", "bench.peers.readers", kind, url, f"seq 1 {lines}"],
        env=peer_environment(),
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=True,
    )
    found = json.loads(said.stdout)
    if found["lines"] != lines:
        raise RuntimeError(f"{kind} counted {found['lines']} of {lines} lines")
    return float(lines / (found["elapsed_ns"] / 1e9))
