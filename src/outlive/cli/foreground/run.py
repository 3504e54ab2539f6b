"""`outlive run`: a command in the foreground that can be left, or one that is left at once."""

import os

from outlive.cli.foreground.delivery import Delivery
from outlive.cli.foreground.ending import OURS_FAILED, die_of, failed_start
from outlive.cli.foreground.keys import DetachKeys
from outlive.cli.foreground.plan import Descriptors, Plan, RunOptions, plan_run
from outlive.cli.foreground.session import Session, own_terminal
from outlive.cli.foreground.signals import Signals
from outlive.cli.foreground.start import start
from outlive.cli.foreground.surroundings import Surroundings
from outlive.cli.foreground.terminal import Terminal
from outlive.cli.output import say, show, show_error, show_json
from outlive.client import Client, OutliveError, Process
from outlive.presence.state_folder import layout_of

__all__ = ["run_command"]


def run_command(options: RunOptions, *, state_dir: str | None, no_start: bool) -> int:
    """Run a command as the command line says; return the exit code, or die of the signal that it died of.

    Raises:
        OutliveError: The command line makes no sense.
    """
    surroundings = Surroundings.found()
    keys = DetachKeys(options.detach_keys)
    plan = plan_run(options, _descriptors())
    signals = Signals()
    terminal = own_terminal() if plan.stdin == "typed" else None
    size = terminal.size if terminal is not None and plan.stdio == "pty" else None
    layout = layout_of(state_dir)
    with Client(layout.root, start_server=not no_start) as client:
        if not options.is_detached:
            signals.hold()
        try:
            process = start(client, layout, options, plan, size=size, surroundings=surroundings)
        except OutliveError as error:
            return failed_start(error, options.argv[0] if options.argv else "sh")
        if options.is_detached:
            return _leave_at_once(process, options)
        return _stay(process, plan, terminal, keys=keys, signals=signals)


def _stay(
    process: Process, plan: Plan, terminal: Terminal | None, *, keys: DetachKeys, signals: Signals
) -> int:
    has_terminal = plan.stdio == "pty"
    delivery = Delivery(process, releases=True, closes=not has_terminal)
    session = Session(
        process,
        delivery,
        terminal=terminal,
        has_terminal=has_terminal,
        keys=keys,
        types=plan.stdin == "typed",
    )
    session.begin(signals)
    try:
        code, number = session.run()
    except OutliveError as error:
        show_error(error)
        say(f"  The command goes on, if it can: outlive attach {process.process_id}")
        return OURS_FAILED
    if number:
        die_of(number)
    return code


def _leave_at_once(process: Process, options: RunOptions) -> int:
    if options.as_json:
        show_json({"process_id": process.process_id, "pid": process.pid})
    else:
        show(process.process_id)
    return 0


def _descriptors() -> Descriptors:
    return Descriptors(
        is_stdin_terminal=os.isatty(0),
        is_stdout_terminal=os.isatty(1),
        is_one_output=os.path.samestat(os.fstat(1), os.fstat(2)),
    )
