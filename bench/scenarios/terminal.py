"""A terminal over WebSocket: what a byte costs, and how long a key takes to come back as an echo."""

import http.client
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from websockets.sync.client import connect

from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive_rest
from bench.servers import Endpoint, measure_sink, naive_pty, open_available, splice

_UNIT = "MB/s"
_KEY = "ms, key to echo, p50"
_LINE = "0123456789" * 7 + "01234567"  # 80 bytes with the terminal's own CR LF
# Ours runs a command before anybody looks: it waits for the line that the other servers are sent.
_WAITING = 'stty -echo; IFS= read -r line; stty echo; eval "$line"'
_WARM_KEYS = 50


def run(bench: Bench) -> Section:
    """Megabytes a second through a terminal, and the echo of single keys, beside a pty in the server's
    process.
    """
    size = bench.pick(400_000_000, 100_000_000)
    keys = bench.pick(2000, 500)
    section = Section(
        "terminal", f"{size // 1_000_000} MB through a terminal; single keys", baseline="naive pty"
    )
    for number in range(bench.pick(5, 2)):
        with ExitStack() as stack:
            servers = {"naive": naive_pty, "ours": outlive_rest, "splice": splice}
            lanes = list(open_available(stack, bench, section=section, servers=servers).values())
            for lane in alternate(lanes if number % 2 == 0 else lanes[::-1], 1):
                bench.say(f"terminal: {lane.label}")
                _measure_volume(bench, section, lane, size=size)
                if lane.dialect != "raw":
                    _measure_keys(section, lane, keys=keys)
    section.judge("terminal_naive", "ours", unit=_UNIT, against="naive pty")
    section.judge("terminal_key", "ours", unit=_KEY)
    section.notes.append("splice: the same command on a pipe, no terminal and no frames")
    return section


def _measure_volume(bench: Bench, section: Section, lane: Endpoint, *, size: int) -> None:
    with _started(lane) as shown:
        bench.warm_memory(size)
        measured = measure_sink(bench, shown, command=f"yes {_LINE} | head -c {size * 79 // 80}\n")
    section.add(lane.label, _UNIT, value=measured["wire_bytes"] / 1e3 / (measured["elapsed_ns"] / 1e6))


def _measure_keys(section: Section, lane: Endpoint, *, keys: int) -> None:
    with _started(lane) as shown, connect(f"ws://127.0.0.1:{shown.port}{shown.path}", proxy=None) as client:
        client.send("stty -icanon; printf ready; cat > /dev/null\n")
        while not bytes(client.recv()).endswith(b"ready"):  # type: ignore[arg-type] # this peer sends no text
            pass
        times = []
        for _ in range(_WARM_KEYS + keys):
            began = time.perf_counter()
            client.send(b"x")
            client.recv()
            times.append(time.perf_counter() - began)
    section.add(lane.label, _KEY, value=statistics.median(times[_WARM_KEYS:]) * 1e3)


@contextmanager
def _started(lane: Endpoint) -> Iterator[Endpoint]:
    """Yield where the next terminal of a server is."""
    if lane.dialect != "rest":
        yield lane
        return
    connection = http.client.HTTPConnection("127.0.0.1", lane.port, timeout=30)
    try:
        body = json.dumps({"command": _WAITING, "pty": True, "stdin": "pipe"})
        connection.request("POST", "/v1/processes", body, {"Content-Type": "application/json"})
        process = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    yield replace(lane, path=f"/ws/terminal/{process['process_id']}", dialect="line")
