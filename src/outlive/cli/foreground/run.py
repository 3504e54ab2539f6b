"""`outlive run`: a command in the foreground that can be left, or one that is left at once."""

import contextlib
import functools
import os
import threading
from dataclasses import replace

from outlive.cli.far import a_client, far_url
from outlive.cli.foreground.delivery import Delivery
from outlive.cli.foreground.exit_status import OURS_FAILED, die_of, exit_as, failed_start
from outlive.cli.foreground.keyboard import DetachKeys, feed
from outlive.cli.foreground.late_output import leave_behind
from outlive.cli.foreground.plan import Descriptors, ForegroundOptions, Plan, plan_run
from outlive.cli.foreground.readiness import Readiness
from outlive.cli.foreground.session import ForegroundSession, own_terminal
from outlive.cli.foreground.signals import EarlySignals
from outlive.cli.foreground.start import start, start_elsewhere
from outlive.cli.foreground.surroundings import Surroundings
from outlive.cli.foreground.terminal import OwnTerminal
from outlive.cli.output import say, show, show_error, show_json
from outlive.client import Client, Cursor, Gap, OutliveError, Output, Process
from outlive.client.address import say_nothing
from outlive.client.results import Stream
from outlive.core.location import DOCKER, LOCAL
from outlive.discovery.state_folder import layout_of

_NOT_READY = 1


def run_command(options: ForegroundOptions, *, state_dir: str | None, no_start: bool) -> int:
    """Run a command as the command line says; return the exit code, or die of the signal that it died of.

    Raises:
        OutliveError: The command line makes no sense.
    """
    surroundings = Surroundings.found()
    readiness = None if options.wait_for is None else Readiness(options.wait_for)
    keys = DetachKeys(options.detach_keys)
    plan = plan_run(options, _descriptors())
    # Where only stdout is a terminal (--pty), it tells the size, and keys are not for us.
    terminal = (
        own_terminal(0 if plan.stdin == "typed" else 1)
        if plan.stdin == "typed" or plan.stdio == "pty"
        else None
    )
    size = terminal.size if terminal is not None and plan.stdio == "pty" else None
    layout = layout_of(state_dir)
    with (
        a_client(layout.root, no_start=no_start, after_stop=True, say=say_nothing) as client,
        contextlib.ExitStack() as loan,
    ):
        early = None if options.is_detached else EarlySignals(terminal)
        if size is not None and terminal is not None and plan.stdin == "typed" and terminal.is_ours:
            terminal.hush()
        try:
            options, is_elsewhere = _placed(options, client)
            if is_elsewhere and plan.stdin == "lent":
                plan = replace(plan, stdin="fed")
            if is_elsewhere:
                process = start_elsewhere(client, options, plan, size=size)
            else:
                process = start(
                    client, layout, options, plan, size=size, surroundings=surroundings, loan=loan
                )
        except OutliveError as error:
            if terminal is not None:
                terminal.restore()
            return failed_start(error, options.argv[0] if options.argv else "sh")
        if process.pid is None and (hint := process.info().hint) is not None:
            say(f"outlive: {hint}")
        if early is None:
            return _leave_at_once(process, options, readiness)
        if plan.stdin == "fed":
            feed(process)
        return _stay(
            process,
            plan,
            terminal,
            keys=keys,
            early=early,
            readiness=readiness,
            state_dir=layout.root,
            is_elsewhere=is_elsewhere,
        )


def _placed(options: ForegroundOptions, client: Client) -> tuple[ForegroundOptions, bool]:
    """Return the options with the backend that the server would choose, and whether that is another machine."""
    if far_url() is not None:
        return options, True
    if options.backend is None and (backend := client.default_backend()) != LOCAL:
        options = replace(options, backend=backend)
    return options, options.backend not in {None, LOCAL, DOCKER}


def _stay(
    process: Process,
    plan: Plan,
    terminal: OwnTerminal | None,
    *,
    keys: DetachKeys,
    early: EarlySignals,
    readiness: Readiness | None,
    state_dir: str,
    is_elsewhere: bool,
) -> int:
    has_terminal = plan.stdio == "pty"

    def gone(stream: Stream) -> None:
        if has_terminal:
            process.signal("HUP", whole_group=True)
        else:
            process.close_output(stream)

    def ended(cursor: Cursor) -> None:
        if not has_terminal:
            leave_behind(process, cursor, state_dir)

    session = ForegroundSession(
        process,
        Delivery(process, releases=True, gone=gone),
        terminal=terminal,
        has_terminal=has_terminal,
        keys=keys,
        types=plan.stdin == "typed",
        ended=ended,
        is_elsewhere=is_elsewhere,
    )
    session.begin()
    early.pass_on(session.heed)
    if readiness is not None and readiness.port is not None:
        watch = functools.partial(readiness.watch_port, process, session.leave)
        threading.Thread(target=watch, name="port", daemon=True).start()

    def seen(item: Output | Gap) -> None:
        if readiness is not None and readiness.is_in(item):
            session.leave()

    try:
        code, number = session.run(seen=seen)
    except OutliveError as error:
        show_error(error)
        say(f"  The command goes on, if it can: outlive attach {process.process_id}")
        return OURS_FAILED
    return _end(code, number, readiness)


def _leave_at_once(process: Process, options: ForegroundOptions, readiness: Readiness | None) -> int:
    if options.as_json:
        info = process.info()
        sandbox = {"profile": info.profile, "features": info.features}
        show_json({"process_id": process.process_id, "pid": process.pid, "sandbox": sandbox})
    else:
        show(process.process_id)
    completion = None if readiness is None else readiness.wait(process)
    if completion is None:
        return 0
    code, _ = exit_as(process, completion)
    return _end(code, 0, readiness)


def _end(code: int, number: int, missed: Readiness | None) -> int:
    """End as the command did; one that ended before it was ready has failed, whatever it says."""
    if missed is not None:
        say(f"outlive: it ended before {missed.wanted!r} was there")
        code = code or _NOT_READY
    if number:
        die_of(number)
    return code


def _descriptors() -> Descriptors:
    return Descriptors(
        is_stdin_terminal=os.isatty(0),
        is_stdout_terminal=os.isatty(1),
        is_one_output=os.path.samestat(os.fstat(1), os.fstat(2)),
    )
