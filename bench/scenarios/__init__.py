"""What is measured: one module per table, each with `run(bench)`; the registry that names them."""

from collections.abc import Callable

from bench.context import Bench
from bench.measure import Section
from bench.scenarios import (
    agents,
    cli,
    docker,
    first_run,
    fleet,
    floods,
    latency,
    live,
    mcp,
    readers,
    sandbox,
    search,
    starts,
    startup,
    stdin,
    terminal,
    throughput,
    unread,
    volume,
    web,
)

__all__ = ["ONLY_BY_NAME", "SCENARIOS"]

SCENARIOS: dict[str, Callable[[Bench], Section]] = {
    "throughput": throughput.run,
    "volume": volume.run,
    "readers": readers.run,
    "stdin": stdin.run,
    "terminal": terminal.run,
    "single": latency.run_single,
    "streams10": latency.run_streams10,
    "streams50": latency.run_streams50,
    "streams100": latency.run_streams100,
    "true": starts.run_true,
    "echo": starts.run_echo,
    "sandbox": sandbox.run,
    "docker": docker.run,
    "mcp_echo": mcp.run_echo,
    "startup": startup.run,
    "first": first_run.run,
    "unread": unread.run,
    "live": live.run,
    "cli": cli.run,
    "floods": floods.run,
    "fleet": fleet.run,
    "agents": agents.run,
    "web": web.run,
    "search": search.run,
}

# Half an hour and more, what fills 5 or 12 GB of the disk, and what waits for a node to be missed: no part of
# a run that names nothing.
ONLY_BY_NAME = frozenset({"agents", "fleet", "search", "web"})
