"""What the command line says about agents: servers, tasks, runs, the host, how long a minute lasts."""

import argparse
from dataclasses import dataclass

# Tasks speak of minutes (a job of 60 s); a minute of 12 s keeps every proportion and a run short enough.
_MINUTE_S = 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """What is tried; `None` of servers, tasks or runs leaves it to the scenario."""

    servers: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    runs: int | None = None
    is_shown: bool = False
    host: str = "claude-code"
    minute_s: float = _MINUTE_S


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `agents` to the command line of the benchmarks."""
    group = parser.add_argument_group("agents")
    group.add_argument("--servers", metavar="NAME,NAME", help="the servers to try")
    group.add_argument(
        "--tasks", metavar="NAME,NAME", help="the tasks to do; `core` and `held-out` name many"
    )
    group.add_argument("--runs", type=int, metavar="N", help="runs of each task (3; with --quick 1)")
    group.add_argument("--show", action="store_true", help="print every call and answer with its tokens")
    group.add_argument("--host", default="claude-code", help="the host that calls: claude-code, codex, plain")
    group.add_argument(
        "--minute",
        type=float,
        default=_MINUTE_S,
        metavar="S",
        help="seconds that a minute of a task lasts (12)",
    )


def agent_options(parsed: argparse.Namespace) -> AgentOptions:
    """Return what a parsed command line says about agents."""
    return AgentOptions(
        servers=_names(parsed.servers),
        tasks=_names(parsed.tasks),
        runs=parsed.runs,
        is_shown=parsed.show,
        host=parsed.host,
        minute_s=parsed.minute,
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
