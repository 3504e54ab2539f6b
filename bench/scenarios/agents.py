"""What a server costs the model that works with it: scripted agents do the same tasks on each server.

The agents, tasks and adapters are in `bench.agents`. For the whole transcript of one task on one server:

    python -m bench agents --servers lean --tasks question --runs 1 --show
"""

import signal
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from bench.agents.conversation import Exchange
from bench.agents.mcp_client import HostProfile
from bench.agents.servers import CONTESTANTS
from bench.agents.table import enter, show
from bench.agents.tasks import TASKS
from bench.agents.tokens import TokenCounter
from bench.agents.trial import Trial, try_task
from bench.context import Bench
from bench.measure import Section, Unavailable, alternate

_RUNS = 3
# A server that has not started in so many trials is left out of the others; one that fails now and then has
# not done its task.
_TRIED_STARTS = 3
# A quick run: tasks of every kind that take a second or two, on what needs no other package.
_QUICK_TASKS = ("short", "build", "flood", "question", "folder", "stdin")


def run(bench: Bench) -> Section:
    """Let agents do every task on every server, several times."""
    # Ended from outside, it ends its servers all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = bench.agents
    section = Section("agents", "agents: calls, tokens and facts of the same tasks over each server")
    servers = _chosen(options.servers, list(CONTESTANTS), of="server")
    tasks = _chosen(options.tasks, list(bench.pick(tuple(TASKS), _QUICK_TASKS)), of="task")
    runs = options.runs or bench.pick(_RUNS, 1)
    host = host_profile(options.host, minute_s=options.minute_s)
    trials: list[Trial] = []
    try:
        counter = TokenCounter()
    except Unavailable as reason:
        section.notes.append(f"nothing is measured: {reason}")
        return section
    with counter:
        missing = {one: CONTESTANTS[one].missing for one in servers if CONTESTANTS[one].missing}
        for name in tasks:
            for label in alternate([one for one in servers if one not in missing], runs):
                if label in missing:
                    continue
                bench.say(f"agents: {name} on {label}")
                watch = _shown(label, name) if options.is_shown else _unseen
                try:
                    trial = try_task(
                        TASKS[name],
                        CONTESTANTS[label],
                        host=host,
                        minute_s=options.minute_s,
                        count=counter.count,
                        watch=watch,
                    )
                except Unavailable as reason:
                    missing[label] = str(reason)
                    continue
                trials.append(trial)
                if trial.trouble:
                    bench.say(f"agents: {name} on {label}: {trial.trouble}")
                mine = [one for one in trials if one.server == label]
                if len(mine) >= _TRIED_STARTS and not any(one.calls for one in mine):
                    missing[label] = trial.trouble
                if options.is_shown:
                    _show_end(trial)
    section.notes += [f"{label} left out: {reason}" for label, reason in missing.items()]
    section.notes.append(
        f"host {host.name}, a minute lasts {options.minute_s:g} s; "
        + ", ".join(CONTESTANTS[one].version for one in servers if one not in missing)
    )
    show(Console(width=None if Console().is_terminal else 180), trials)
    enter(section, trials)
    section.details += [trial.summary for trial in trials]
    return section


def host_profile(name: str, *, minute_s: float) -> HostProfile:
    """Return how a host calls.

    Claude Code gives up on no call by itself within the times that tasks take, and shows progress; its user
    would press Escape after two minutes of silence. Codex (`tool_timeout_sec`) and clients on an SDK's
    default give up after a minute.
    """
    match name:
        case "claude-code":
            return HostProfile(name=name, has_progress=True, limit_s=2 * minute_s, is_renewed=False)
        case "codex":
            return HostProfile(
                name="codex-mcp-client", has_progress=False, limit_s=minute_s, is_renewed=False
            )
        case _:
            return HostProfile(name=name, has_progress=False, limit_s=minute_s, is_renewed=False)


def _chosen(named: Sequence[str] | None, known: Sequence[str], *, of: str) -> list[str]:
    every = {"server": list(CONTESTANTS), "task": list(TASKS)}[of]
    groups = {
        "core": [name for name, task in TASKS.items() if not task.is_held_out],
        "held-out": [name for name, task in TASKS.items() if task.is_held_out],
        "all": every,
    }
    chosen = [one for name in named or known for one in groups.get(name, [name])]
    if unknown := set(chosen) - set(every):
        raise ValueError(f"no {of} is called {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    return chosen


def _unseen(_: Exchange) -> None:
    pass


def _shown(label: str, task: str) -> Callable[[Exchange], None]:
    """Return what prints an exchange; the task's name and goal come first."""
    print(f"\n##### {task} on {label}: {TASKS[task].goal}")

    def watch(exchange: Exchange) -> None:
        reply = exchange.reply
        error = " ERROR" if reply.is_error else ""
        print(f"\n>>> {exchange.use.tool} {exchange.use.text}   [{exchange.call_tokens} tokens]")
        print(f"<<< [{exchange.reply_tokens} tokens, {reply.seconds:.1f} s{error}]")
        print(reply.text)

    return watch


def _show_end(trial: Trial) -> None:
    print(
        f"\n===== {trial.task} on {trial.server}: {'done' if trial.is_done else 'NOT DONE'}, "
        f"{trial.calls} calls, "
        f"{trial.tokens} tokens, {trial.turns_tokens} in turns (schema {trial.schema_tokens}), "
        f"{trial.seconds:.1f} s, "
        f"facts {trial.found}/{trial.wanted}"
    )
    for fact, is_found in trial.facts:
        if not is_found:
            print(f"      missing: {fact}")
    for line in trial.left:
        print(f"      left behind: {line}")
    if trial.trouble:
        print(f"      trouble: {trial.trouble}")
