"""Many live processes: what one costs in memory, descriptors and threads, and how often ours wake idle."""

import statistics
import time
from dataclasses import dataclass

from bench import proc
from bench.context import Bench
from bench.measure import Section, Unavailable
from bench.product import outlive
from bench.servers import Endpoint
from bench.wire import Connection, result_of

_WARM_UP = 300
_SWITCHES = "switches a second"
_QUIET_S = (15, 30)  # after the last command, and then while it is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class _Footprint:
    """What server and keeper hold at one moment; memory is what belongs to them alone."""

    server_kb: int
    server_threads: int
    server_descriptors: int
    supervisor_kb: int
    supervisor_descriptors: int
    guardian_kb: int
    shims_kb: tuple[int, ...]

    @property
    def keeper_kb(self) -> int:
        """Supervisor, guardian and all shims together."""
        return self.supervisor_kb + self.guardian_kb + sum(self.shims_kb)


def run(bench: Bench) -> Section:
    """1000 processes that sleep: the cost of one, from the difference between many and few."""
    few, many = bench.pick((100, 1000), (20, 200))
    section = Section("live", f"{many} live processes (the differences: from {few} to {many})")
    try:
        with outlive(bench) as endpoint, Connection(endpoint.port, endpoint.path) as client:
            client.receive_until("connected")
            # The server's pool of threads, a handful however much it has to do, is filled as it is needed.
            _start(client, _WARM_UP, words=["/bin/true"], completed=True)
            commands: set[int] = set()
            looks = []
            _rest(bench, section, endpoint, commands)
            for count in (few, many):
                bench.say(f"live: {count} processes")
                commands |= _start(client, count - len(commands), words=["sleep", "3600"])
                looks.append(_look(endpoint, commands))
                _rest(bench, section, endpoint, commands)
        _tell(section, looks[0], looks[1], counts=(few, many))
    except Unavailable as reason:
        section.notes.append(f"left out: {reason}")
    return section


def _start(client: Connection, count: int, *, words: list[str], completed: bool = False) -> set[int]:
    """Start `count` processes without waiting in between; returns their pids."""
    requests = {
        client.send("execute", {"argv": words, "concurrent": True, "detach": True}) for _ in range(count)
    }
    pids = set()
    ended = 0
    while requests or (completed and ended < count):
        message = client.receive()
        if message.get("id") in requests:
            requests.discard(message["id"])
            pids.add(int(result_of(message)["pid"]))
        ended += message.get("method") == "process.completed"
    return pids


def _heads(endpoint: Endpoint) -> list[int]:
    return [endpoint.pids[name] for name in ("server", "supervisor", "guardian")]


def _shims(endpoint: Endpoint, commands: set[int]) -> set[int]:
    """The shims, the idle ones included: what lies below the guardian or holds a command, and is neither."""
    below = proc.descendants(endpoint.pids["guardian"]) | {proc.parent(pid) for pid in commands}
    return below - commands - {*_heads(endpoint), 1}


def _rest(bench: Bench, section: Section, endpoint: Endpoint, commands: set[int]) -> None:
    """Count the context switches of server, keeper and shims while nothing happens, one client connected."""
    ours = {*_heads(endpoint), *_shims(endpoint, commands)}
    settles_s, counted_s = bench.pick(_QUIET_S, (2, 10))
    bench.say(f"live: idle with {len(commands)} processes")
    time.sleep(settles_s)
    count = sum(map(proc.switches, ours))
    time.sleep(counted_s)
    value = (sum(map(proc.switches, ours)) - count) / counted_s
    section.add(f"idle, {len(commands)}", _SWITCHES, value=value)


def _look(endpoint: Endpoint, commands: set[int]) -> _Footprint:
    server, supervisor, guardian = _heads(endpoint)
    return _Footprint(
        server_kb=proc.own_kb(server),
        server_threads=proc.threads(server),
        server_descriptors=proc.descriptors(server),
        supervisor_kb=proc.own_kb(supervisor),
        supervisor_descriptors=proc.descriptors(supervisor),
        guardian_kb=proc.own_kb(guardian),
        shims_kb=tuple(map(proc.own_kb, _shims(endpoint, commands))),
    )


def _tell(section: Section, first: _Footprint, last: _Footprint, *, counts: tuple[int, int]) -> None:
    few, many = counts
    added = many - few
    keeper = "keeper and shims"
    section.add(keeper, "KB a process", value=last.keeper_kb / many, note="all of it, divided")
    section.add(keeper, "KB a process more", value=(last.keeper_kb - first.keeper_kb) / added)
    note = f"{len(last.shims_kb)} shims"
    section.add("one shim", "KB", value=statistics.median(last.shims_kb or (0,)), note=note)
    section.add("supervisor", "KB in all", value=last.supervisor_kb)
    section.add("guardian", "KB in all", value=last.guardian_kb)
    more = (last.supervisor_descriptors - first.supervisor_descriptors) / added
    section.add("supervisor", "descriptors a process more", value=more)
    section.add("server", "KB in all", value=last.server_kb)
    section.add("server", "KB a process more", value=(last.server_kb - first.server_kb) / added)
    more = (last.server_descriptors - first.server_descriptors) / added
    section.add("server", "descriptors a process more", value=more)
    section.add("server", "threads more", value=last.server_threads - first.server_threads)
    section.judge("live_keeper", keeper, unit="KB a process")
    section.judge("live_server", "server", unit="KB a process more")
    section.judge("live_idle", f"idle, {few}", unit=_SWITCHES)
    section.judge("live_threads", "server", unit="threads more")
