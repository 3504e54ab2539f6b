"""Commands on a node of this machine: what it costs beside starting them here, and how soon a dead node is
known.
"""

import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench import proc
from bench.context import Bench
from bench.measure import Section, Unavailable, alternate
from bench.product import Fleet, outlive_fleet
from bench.relay import Relay
from bench.schedulers import ray_job, slurm_step
from bench.wire import Connection, result_of

_HERE = {"backend": "local"}
_NODE = {"backend": "far"}
_PLACED = {"needs": {"cpu": 1}}
_LANES: dict[str, dict[str, object]] = {
    "here": {**_HERE},
    "on a node": {**_NODE},
    "placed on a node": {**_PLACED},
}
_AT_ONCE = 50
_STARTS = 200
_PATIENCE_S = 30
_SCHEDULERS = {"ray job submit": ray_job, "srun": slurm_step}


def run(bench: Bench) -> Section:
    """Starts, streams, memory and silence of a node, against this machine and against schedulers that are
    installed.
    """
    section = Section("fleet", "commands on a node (both servers on this machine)", baseline="here")
    with outlive_fleet(bench) as fleet:
        _await_state(fleet, "far", "connected")
        for label, options in _LANES.items():
            _start_many(fleet, options, total=_AT_ONCE)
            _start_one(fleet, options)
            bench.say(f"fleet: {label} is warm")
        for label in alternate(list(_LANES), bench.pick(5, 2)):
            bench.say(f"fleet: starts {label}")
            _one_by_one(bench, section, fleet, label)
            _many(bench, section, fleet, label)
        for label in alternate(["here", "on a node"], bench.pick(3, 1)):
            for streams in (1, 50):
                bench.say(f"fleet: {streams} streams {label}")
                _streams(bench, section, fleet, label, streams=streams)
        _memory(bench, section, fleet)
        _silence(bench, section, fleet)
    for label in _SCHEDULERS:
        try:
            _scheduled(bench, section, label)
        except Unavailable as reason:
            section.notes.append(f"{label} left out: {reason}")
    section.judge("fleet_start", "placed on a node", unit="ms p50, execute to its answer")
    section.judge("fleet_cpu", "on a node", unit=_CPU, against="here")
    section.judge("fleet_memory", "server, a process on a node", unit="KB more")
    section.judge("fleet_files", "server, a process on a node", unit="descriptors more")
    return section


_CPU = f"ms of processor time, {_STARTS} starts"


@contextmanager
def _client(fleet: Fleet) -> Iterator[Connection]:
    with Connection(fleet.near.port, fleet.near.path) as client:
        client.receive_until("connected")
        yield client


def _start_one(fleet: Fleet, options: dict[str, object]) -> tuple[float, float]:
    """Start /bin/true; return after how many milliseconds the answer and the completion came."""
    with _client(fleet) as client:
        return _timed(client, options)


def _timed(client: Connection, options: dict[str, object]) -> tuple[float, float]:
    begun = time.perf_counter()
    client.call("execute", {"argv": ["/bin/true"], **_QUIET, **options})
    answered = time.perf_counter()
    client.receive_until("process.completed")
    return (answered - begun) * 1e3, (time.perf_counter() - begun) * 1e3


_QUIET: dict[str, object] = {"concurrent": True, "detach": True, "output": "none"}


def _one_by_one(bench: Bench, section: Section, fleet: Fleet, label: str) -> None:
    with _client(fleet) as client:
        bench.settle()
        times = [_timed(client, _LANES[label]) for _ in range(bench.pick(100, 30))]
    answers = sorted(answer for answer, _ in times)
    section.add(label, "ms p50, execute to its answer", value=statistics.median(answers))
    section.add(label, "ms p99, execute to its answer", value=answers[int(len(answers) * 0.99)])
    section.add(label, "ms p50, execute to the completion", value=statistics.median(end for _, end in times))


def _start_many(fleet: Fleet, options: dict[str, object], *, total: int) -> float:
    """Start /bin/true so often, `_AT_ONCE` at a time; return how many seconds that took."""
    begun = time.perf_counter()
    with _client(fleet) as client:
        sent = ended = 0
        while ended < total:
            while sent < total and sent - ended < _AT_ONCE:
                client.send("execute", {"argv": ["/bin/true"], **_QUIET, **options})
                sent += 1
            message = client.receive()
            result_of(message)
            ended += message.get("method") == "process.completed"
    return time.perf_counter() - begun


def _many(bench: Bench, section: Section, fleet: Fleet, label: str) -> None:
    bench.settle()
    before = sum(map(proc.cpu_s, fleet.pids))
    took_s = _start_many(fleet, _LANES[label], total=_STARTS)
    bench.settle()  # what is filed and prepared afterwards belongs to the starts
    used_s = sum(map(proc.cpu_s, fleet.pids)) - before
    section.add(label, "starts/s, 50 at a time", value=_STARTS / took_s)
    section.add(label, _CPU, value=used_s * 1e3, note="servers and supervisors of both")


def _streams(bench: Bench, section: Section, fleet: Fleet, label: str, *, streams: int) -> None:
    """Have processes write; measured until all of it is in the near server's folders."""
    each = bench.pick(256, 32) * 1024 * 1024 // streams
    bench.warm_memory(each * streams)
    with _client(fleet) as client:
        begun = time.perf_counter()
        for _ in range(streams):
            line = f"head -c {each} /dev/zero"
            client.send("execute", {"command": line, **_QUIET, **_LANES[label]})
        for _ in range(streams):
            client.receive_until("process.completed")
        took_s = time.perf_counter() - begun
    section.add(label, f"MB/s, {streams} stream{'s' * (streams > 1)}", value=each * streams / took_s / 1e6)


def _memory(bench: Bench, section: Section, fleet: Fleet) -> None:
    few, many = bench.pick((100, 1100), (20, 220))
    server = fleet.near.pids["server"]
    looks = []
    with _client(fleet) as client:
        count = 0
        for wanted in (few, many):
            bench.say(f"fleet: {wanted} live processes")
            for _ in range(wanted - count):
                client.send("execute", {"command": "echo begun; exec sleep 3600", **_QUIET, **_NODE})
            for _ in range(wanted - count):
                client.receive_until("process.started")
            count = wanted
            bench.settle()
            looks.append((proc.own_kb(server), proc.descriptors(server)))
        added = many - few
        label = "server, a process on a node"
        section.add(label, "KB more", value=(looks[1][0] - looks[0][0]) / added, note=f"from {few} to {many}")
        section.add(label, "descriptors more", value=(looks[1][1] - looks[0][1]) / added)


def _silence(bench: Bench, section: Section, fleet: Fleet) -> None:
    """Time how long it takes until a node that has fallen silent is reported as away."""
    for number in range(bench.pick(3, 1)):
        bench.say("fleet: a node stands still")
        os.kill(fleet.far.pids["server"], signal.SIGSTOP)
        try:
            took_s = _await_state(fleet, "far", "away")
        finally:
            os.kill(fleet.far.pids["server"], signal.SIGCONT)
        section.add("a server that stands still", "s until it is known to be away", value=took_s)
        _await_state(fleet, "far", "connected")
        bench.say("fleet: a cable is pulled")
        with Relay(fleet.far.port) as relay:
            fleet.add(f"cut{number}", relay.port)
            _await_state(fleet, f"cut{number}", "connected")
            relay.silence()
            took_s = _await_state(fleet, f"cut{number}", "away")
        section.add("a cable that is pulled", "s until it is known to be away", value=took_s)


def _await_state(fleet: Fleet, name: str, state: str) -> float:
    """Return how many seconds it takes until a node is in a state."""
    begun = time.perf_counter()
    with _client(fleet) as client:
        while time.perf_counter() < begun + _PATIENCE_S:
            nodes = client.call("nodes", {})["nodes"]
            if any(one["name"] == name and one["state"] == state for one in nodes):
                return time.perf_counter() - begun
            time.sleep(0.01)
    raise RuntimeError(f"the node {name} is not {state} after {_PATIENCE_S} s")


def _scheduled(bench: Bench, section: Section, label: str) -> None:
    """Time what a scheduler does with /bin/true, from the start of its client to that one's end.

    Raises:
        Unavailable: It is not installed, or does not get ready.
    """
    with _SCHEDULERS[label](bench) as command:
        for _ in range(bench.pick(5, 2)):
            bench.say(f"fleet: {label}")
            begun = time.perf_counter()
            if not command.run():
                raise RuntimeError(f"{label} failed")
            took_ms = (time.perf_counter() - begun) * 1e3
            section.add(label, "ms p50, execute to the completion", value=took_ms, note="its client included")
