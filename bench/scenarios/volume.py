"""A gigabyte through ours and through splice: what a byte costs."""

from contextlib import ExitStack

from bench.context import Bench
from bench.measure import Section, alternate
from bench.product import outlive
from bench.servers import Endpoint, measure_sink, open_available, splice

_UNIT = "MB/s"
_LINE = "0123456789" * 7 + "012345678"  # 80 bytes with its newline


def run(bench: Bench) -> Section:
    """Megabytes of output a second, from a pipeline of ordinary programs and from a faster source."""
    size = bench.pick(1_000_000_000, 200_000_000)
    section = Section("volume", f"{size // 1_000_000} MB of 80-byte lines, log on", baseline="splice, yes")
    commands = {"yes": f"yes {_LINE} | head -c {size}", "fill": bench.native.emit("fill", size, 80)}
    for number in range(bench.pick(5, 2)):
        # A fresh state folder a round: the logs of one round are gigabytes.
        with ExitStack() as stack:
            servers = {"splice": splice, "outlive": outlive}
            opened = open_available(stack, bench, section=section, servers=servers)
            lanes = _lanes(opened)
            for lane in lanes:
                measure_sink(bench, lane, command="seq 1 1000")
            for lane in alternate(lanes if number % 2 == 0 else lanes[::-1], 1):
                for source, command in commands.items():
                    bench.say(f"volume: {lane.label}, {source}")
                    bench.warm_memory(size)
                    seconds = measure_sink(bench, lane, command=command)["elapsed_ns"] / 1e9
                    section.add(f"{lane.label}, {source}", _UNIT, value=size / 1e6 / seconds)
    section.judge("chunk_splice", "ours, chunk, yes", unit=_UNIT, against="splice, yes")
    section.notes.append("yes = `yes | head -c`, three processes; fill = one C program")
    return section


def _lanes(opened: dict[str, Endpoint]) -> list[Endpoint]:
    lanes = [opened["splice"]]
    if "outlive" in opened:
        ours = opened["outlive"]
        lanes += [ours.with_options(f"ours, {name}", output=name) for name in ("chunk", "binary", "lines")]
    return lanes
