"""Somebody floods the server: how long a health check takes meanwhile, and how much memory that costs."""

import http.client
import json
import subprocess
import sys
import time

from bench import proc
from bench.context import Bench, peer_environment
from bench.measure import Section, Verdict
from bench.product import outlive_rest
from bench.servers import Endpoint

FLOODS = {
    "idle": "10 000 connections that say nothing",
    "slow_heads": "1500 requests that come byte by byte",
    "bodies": "bodies of a gigabyte",
    "frames": "frame bombs",
    "deep": "JSON a million brackets deep",
    "requests": "requests as fast as they are answered",
    "starts": "100 000 commands",
}
_PAUSE_S = 0.02
_DEADLINE_S = 20


def run(bench: Bench) -> Section:
    """Flood a server of its own in every way, one after the other."""
    section = Section("floods", "health checks while somebody floods the server")
    seconds = bench.pick(10, 4)
    slowest = largest = 0.0
    with outlive_rest(bench) as endpoint:
        _warm_up(endpoint)
        for kind, sentence in FLOODS.items():
            bench.say(f"floods: {sentence}")
            delays, memory = _flooded(endpoint, kind=kind, seconds=seconds)
            p99 = sorted(delays)[int(len(delays) * 0.99)]
            section.add(sentence, "ms p99 of a health check", value=p99 * 1000, note=f"{len(delays)} checks")
            section.add(sentence, "MB more in the server", value=memory)
            slowest, largest = max(slowest, p99 * 1000), max(largest, memory)
    section.verdicts.append(Verdict("floods_health", slowest))
    section.verdicts.append(Verdict("floods_memory", largest))
    return section


def _flooded(endpoint: Endpoint, *, kind: str, seconds: int) -> tuple[list[float], float]:
    """Return how long each health check took, and how much the server grew (MB)."""
    server = endpoint.pids["server"]
    before = most = proc.resident_kb(server)
    delays: list[float] = []
    words = ["-m", "bench.peers.flooder", kind, str(endpoint.port), str(seconds)]
    with subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, env=peer_environment(), text=True
    ) as flooder:
        assert flooder.stdout is not None
        flooder.stdout.readline()
        while flooder.poll() is None:
            delays.append(_check(endpoint))
            most = max(most, proc.resident_kb(server))
            time.sleep(_PAUSE_S)
    return delays, (most - before) / 1000


def _check(endpoint: Endpoint) -> float:
    """Ask how the server feels, on a connection of its own; return the seconds that took."""
    began = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=_DEADLINE_S)
    connection.request("GET", "/health")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"the health check was answered with {answer.status}")
    return time.monotonic() - began


def _warm_up(endpoint: Endpoint) -> None:
    """Let every door load what it needs: that is no flood's doing."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    for method, path in (("GET", "/v1/processes"), ("POST", "/mcp")):
        connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=_DEADLINE_S)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()
