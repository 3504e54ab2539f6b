"""A client that stops reading: the process must not notice, the server must not grow, nothing is lost."""

import hashlib
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

from bench import proc
from bench.context import Bench
from bench.measure import Section, Unavailable, Verdict, alternate
from bench.product import outlive
from bench.servers import Endpoint
from bench.wire import Connection, drain

_WIDTH = 1000
_UNREAD = "MB more in the server, unread"
_EXACT = "% byte-exact"
_TIME = "s for the process"
_DEADLINE_S = 120
_FLOOR = "| splice into a file, C"


class _Peak:
    """The largest resident size that a process had while this was entered, looked at every 5 ms."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.kilobytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self.kilobytes = max(self.kilobytes, proc.resident_kb(self._pid))


def run(bench: Bench) -> Section:
    """A gigabyte for a client that does not read until the process has ended, then reads it all."""
    size = bench.pick(1_000_000_000, 100_000_000)
    section = Section("unread", f"{size // 1_000_000} MB unread by a stopped client", baseline="| cat, yes")
    sources = {
        "yes": f"yes {'x' * (_WIDTH - 1)} | head -c {size}",
        "fill": bench.native.emit("fill", size, _WIDTH),
    }
    expected = {source: _digest(command) for source, command in sources.items()}
    contests = [(who, source) for source in sources for who in ("| cat", _FLOOR, "lines", "chunk")]
    for who, source in alternate(contests, bench.pick(5, 1)):
        bench.say(f"unread: {who}, {source}")
        with bench.folder() as folder:
            taken = folder / "taken"
            command = _timed(sources[source], taken)
            if who in ("| cat", _FLOOR):
                bench.warm_memory(size)
                reader = "cat > /dev/null" if who == "| cat" else f"{bench.native.path('keep')} {folder}/log"
                subprocess.run(["/bin/sh", "-c", f"{{ {command}; }} | {reader}"], check=True)
                section.add(f"{who}, {source}", _TIME, value=_seconds(taken))
                continue
            try:
                with outlive(bench) as endpoint:
                    ours = endpoint.with_options(f"ours, {who}, {source}", output=who)
                    exact = (
                        _measure(bench, section, ours, command=command, size=size, taken=taken)
                        == expected[source]
                    )
            except Unavailable as reason:
                section.notes = [f"ours left out: {reason}"]
            else:
                section.add(ours.label, _EXACT, value=100.0 if exact else 0.0)
    _judge(section)
    return section


def _judge(section: Section) -> None:
    """Time by ordinary programs; memory and exactness by the worst that was seen at all."""
    section.judge("unread_time", "ours, lines, yes", unit=_TIME, against="| cat, yes")
    seen = {
        unit: [value for row in section.rows if row.unit == unit for value in row.values]
        for unit in (_UNREAD, _EXACT)
    }
    if seen[_EXACT]:
        section.verdicts.append(Verdict("unread_memory", max(seen[_UNREAD])))
        section.verdicts.append(Verdict("unread_exact", min(seen[_EXACT])))
    section.notes.append(
        "yes = `yes | head -c` (judged); fill = one C program; splice into a file keeps the bytes and "
        "does nothing else"
    )


def _timed(command: str, taken: Path) -> str:
    """A shell line that runs `command` and leaves its nanoseconds in `taken`, which appears complete."""
    return (
        f"began=$(date +%s%N); {command}; ended=$(date +%s%N); "
        f"echo $((ended - began)) > {taken}.new; mv {taken}.new {taken}"
    )


def _seconds(taken: Path) -> float:
    return int(taken.read_text()) / 1e9


def _digest(command: str) -> str:
    digest = hashlib.sha256()
    with subprocess.Popen(["/bin/sh", "-c", command], stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        while block := source.stdout.read(1 << 18):
            digest.update(block)
    return digest.hexdigest()


def _measure(
    bench: Bench, section: Section, endpoint: Endpoint, *, command: str, size: int, taken: Path
) -> str:
    """Measure one stopped client; returns the sha256 of what it read in the end."""
    label, server = endpoint.label, endpoint.pids["server"]
    _warm_up(endpoint)
    bench.warm_memory(size)  # not before: what was freed two seconds ago the host has back
    with Connection(endpoint.port, endpoint.path, timeout_s=_DEADLINE_S) as client:
        client.receive_until("connected")
        before = proc.resident_kb(server)
        with _Peak(server) as unread:
            client.send("execute", {"command": command, **endpoint.options})
            _await_file(taken)
        with _Peak(server) as drained:
            began = time.monotonic()
            digest = drain(client)
            seconds = time.monotonic() - began
    section.add(label, _TIME, value=_seconds(taken))
    section.add(label, _UNREAD, value=(unread.kilobytes - before) / 1000)
    section.add(label, "MB more in the server, draining", value=(drained.kilobytes - before) / 1000)
    section.add(label, "MB/s drained by a Python client", value=size / 1e6 / seconds)
    return digest


def _warm_up(endpoint: Endpoint) -> None:
    """Stream a little first: what every stream needs once is not what an unread one costs."""
    with Connection(endpoint.port, endpoint.path) as client:
        client.receive_until("connected")
        client.call("execute", {"command": "seq 1 200000", **endpoint.options})
        drain(client)


def _await_file(path: Path) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the process did not end while its client was not reading")
        time.sleep(0.005)
