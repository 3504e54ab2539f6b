"""Tables of trials: one row a task, then what a server costs over all of them."""

import statistics
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from bench.agents.tasks import TASKS
from bench.agents.trial import Trial
from bench.measure import Section

_CORE = "the 21 tasks"
_HELD_OUT = "held-out tasks"
_JUDGED = "lean"
_GOALS = (
    ("agents_tokens", _CORE, "tokens"),
    ("agents_calls", _CORE, "calls"),
    ("agents_done", _CORE, "% done"),
    ("agents_left", _CORE, "left behind"),
    ("agents_held_out", _HELD_OUT, "% done"),
)


def show(console: Console, trials: Sequence[Trial]) -> None:
    """Print task by task what each server needed: the medians of its runs."""
    servers = list(dict.fromkeys(trial.server for trial in trials))
    table = Table(
        title="agents: calls / tokens / turns-tokens / seconds, facts found of wanted, left behind",
        title_justify="left",
    )
    table.add_column("task")
    for server in servers:
        table.add_column(server)
    for task in dict.fromkeys(trial.task for trial in trials):
        cells = []
        for server in servers:
            runs = [trial for trial in trials if (trial.task, trial.server) == (task, server)]
            cells.append(_cell(runs) if runs else "")
        table.add_row(task, *cells)
    console.print(table)


def _cell(runs: Sequence[Trial]) -> str:
    def median(of: Callable[[Trial], float]) -> float:
        return statistics.median(of(run) for run in runs)

    found, wanted = min(run.found for run in runs), runs[0].wanted
    left = max(len(run.left) for run in runs)
    text = (
        f"{median(lambda run: run.calls):.0f} / {_short(median(lambda run: run.tokens))} / "
        f"{_short(median(lambda run: run.turns_tokens))} / {median(lambda run: run.seconds):.1f}"
    )
    if found < wanted:
        text += f" [red]{found}/{wanted}[/]"
    if left:
        text += f" [red]{left} left[/]"
    return text + (" [red]![/]" if any(run.trouble for run in runs) else "")


def _short(value: float) -> str:
    return (
        f"{value:.0f}"
        if value < 1000
        else f"{value / 1000:.1f}k"
        if value < 100_000
        else f"{value / 1000:.0f}k"
    )


def enter(section: Section, trials: Sequence[Trial]) -> None:
    """Enter the totals of each run into a section, and judge ours."""
    done_by: dict[str, set[str]] = {}
    for trial in trials:
        done_by.setdefault(trial.server, set()).add(trial.task)
    for server in done_by:
        mine = [trial for trial in trials if trial.server == server]
        section.add(f"{server}: schema", "tokens", value=max(one.schema_tokens for one in mine))
        for group, is_held_out in ((_CORE, False), (_HELD_OUT, True)):
            for chosen in _runs([trial for trial in mine if TASKS[trial.task].is_held_out is is_held_out]):
                _enter_run(section, f"{server}: {group}", chosen)
    # A goal is about all tasks of its group: a choice of them says nothing.
    for key, group, unit in _GOALS:
        wanted = {name for name, task in TASKS.items() if task.is_held_out is (group == _HELD_OUT)}
        if wanted <= done_by.get(_JUDGED, set()):
            section.judge(key, f"{_JUDGED}: {group}", unit=unit)
    section.judge("agents_schema", f"{_JUDGED}: schema", unit="tokens")


def _runs(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Return the trials of each run: the first of every task, the second of every task, and so on."""
    by_task: dict[str, list[Trial]] = {}
    for trial in trials:
        by_task.setdefault(trial.task, []).append(trial)
    most = max(map(len, by_task.values()), default=0)
    return [[runs[number] for runs in by_task.values() if number < len(runs)] for number in range(most)]


def _enter_run(section: Section, label: str, trials: Sequence[Trial]) -> None:
    done = sum(trial.is_done for trial in trials)
    section.add(label, "calls", value=sum(trial.calls for trial in trials))
    section.add(label, "tokens", value=sum(trial.tokens for trial in trials))
    section.add(label, "turns-tokens", value=sum(trial.turns_tokens for trial in trials))
    section.add(label, "s", value=sum(trial.seconds for trial in trials))
    section.add(label, "% done", value=100 * done / len(trials), note=f"{done} of {len(trials)}")
    section.add(label, "left behind", value=sum(len(trial.left) for trial in trials))
