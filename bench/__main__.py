"""The command line of the benchmarks: `python -m bench [--quick] [NAME...]`.

Ends with 0 whatever the clock says, and with 1 when a measurement could not be made.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.agents.options import add_agent_options, agent_options
from bench.context import Bench
from bench.measure import Section, Unavailable
from bench.native import Native, compile_programs
from bench.report import save, show_section, show_verdicts
from bench.scenarios import ONLY_BY_NAME, SCENARIOS

_RESULTS = Path(__file__).parent / "results"


def main(words: Sequence[str]) -> int:
    """Measure what `words` name, or everything; returns the exit code."""
    options = _parse(words)
    console = Console(width=None if sys.stdout.isatty() else 140)
    progress = Console(stderr=True)
    names = options.names or [name for name in SCENARIOS if name not in ONLY_BY_NAME]
    with tempfile.TemporaryDirectory(prefix="ob-") as scratch:
        try:
            # Agents measure texts, and a search is measured over HTTP: they need none of the programs in C,
            # nor the seconds that compiling takes.
            native = (
                Native(Path(scratch))
                if names in (["agents"], ["search"])
                else compile_programs(Path(scratch))
            )
        except Unavailable as reason:
            console.print(f"nothing is measured: {reason}", highlight=False)
            return 0

        def say(line: str) -> None:
            progress.print(line, style="dim", highlight=False)

        bench = Bench(
            native=native,
            scratch=Path(scratch),
            is_quick=options.quick,
            say=say,
            agents=agent_options(options),
            search_mb=options.search_mb,
        )
        sections, failed = _run(bench, names, console=console)
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    show_verdicts(console, verdicts, is_quick=options.quick, is_whole=not options.names)
    path = save(options.results, sections, is_quick=options.quick)
    console.print(f"saved as {path}", highlight=False, soft_wrap=True)
    return 1 if failed else 0


def _run(bench: Bench, names: Sequence[str], *, console: Console) -> tuple[list[Section], list[str]]:
    sections, failed = [], []
    for name in names:
        try:
            section = SCENARIOS[name](bench)
        except Exception as error:  # noqa: BLE001 - one broken measurement must not cost the others
            console.print(f"[bold red]{name} could not be measured[/]: {error!r}", highlight=False)
            if os.environ.get("BENCH_TRACEBACK"):
                console.print_exception()
            failed.append(name)
            continue
        show_section(console, section)
        sections.append(section)
    return sections, failed


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure outlive side by side.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    is_quick = os.environ.get("BENCH_QUICK", "") not in ("", "0")
    parser.add_argument(
        "--quick", action="store_true", default=is_quick, help="under two minutes; BENCH_QUICK=1"
    )
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder for the JSON files")
    parser.add_argument(
        "--search-mb",
        type=int,
        metavar="MB",
        help="output that `search` looks through (10000; with --quick 200)",
    )
    add_agent_options(parser)
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(SCENARIOS):
        parser.error(f"nothing is called {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
