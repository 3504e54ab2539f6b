"""`outlive run`: a command in the foreground that can be left, or one that is left at once.

Flags that are options of every start take their sentences and bounds from `operations.start`. How the command
is run belongs to `outlive.cli.foreground`.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from outlive.cli.far import a_client, far_url
from outlive.cli.foreground.delivery import Delivery, leave_behind
from outlive.cli.foreground.keyboard import DetachKeys, feed
from outlive.cli.foreground.plan import (
    LIMIT_EXAMPLES,
    Descriptors,
    ForegroundOptions,
    Plan,
    check_options,
    limit,
    need,
    plan_run,
    variable,
)
from outlive.cli.foreground.session import ForegroundSession, Readiness, look_on, own_terminal
from outlive.cli.foreground.signals import OURS_FAILED, EarlySignals, die_of, exit_as, failed_start
from outlive.cli.foreground.start import Surroundings, start, start_elsewhere
from outlive.cli.foreground.terminal import OwnTerminal
from outlive.cli.output import say, show, show_error, show_json
from outlive.cli.parameters import (
    DETACH_KEYS,
    NEED_EXAMPLES,
    SERVER,
    TIME,
    Parameter,
    ServerFlags,
    UsageError,
    one_of,
    option,
    options,
    pair,
    places,
    switch,
    takes,
    whole_number,
)
from outlive.cli.processes import find_process
from outlive.client import Client, Cursor, Gap, InvalidRequest, OutliveError, Output, Process, ProcessInfo
from outlive.client.link import say_nothing
from outlive.client.options import FlagOptions
from outlive.client.results import Stream
from outlive.core.durations import parse_duration
from outlive.core.hints import ran_before
from outlive.core.identity import short_name
from outlive.core.location import ANY, DOCKER, LOCAL
from outlive.discovery.state_folder import layout_of

_NOT_READY = 1


def run_command(options: ForegroundOptions, *, state_dir: str | None, no_start: bool) -> int:
    """Run a command as the command line says; return the exit code, or die of the signal that it died of.

    Raises:
        OutliveError: The command line makes no sense.
    """
    check_options(options)
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
        a_client(layout.root, no_start=no_start, say=say_nothing) as client,
        contextlib.ExitStack() as loan,
    ):
        early = None if options.is_detached else EarlySignals(terminal)
        if size is not None and terminal is not None and plan.stdin == "typed" and terminal.is_ours:
            terminal.hush()
        try:
            options, is_elsewhere = _placed(options, client)
            if is_elsewhere and plan.stdin == "lent":
                plan = plan._replace(stdin="fed")
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
        info = None if process.is_new else process.info()
        if info is not None:
            # Nothing was started, and the result may be old.
            ended_s_ago = (
                None if info.ended_at is None else (datetime.now(UTC) - info.ended_at).total_seconds()
            )
            say(f"outlive: {info.short_id or short_name(info.process_id)} {ran_before(ended_s_ago)}")
        elif process.pid is None:
            _say_waiting(process.info(), client)
        if early is None:
            return _leave_at_once(process, options, readiness)
        if info is not None:
            if terminal is not None:
                terminal.restore(for_good=True)
            # What is typed goes to no command: the process may be another terminal's.
            session = look_on(
                process, info, layout, terminal=None, keys=keys, types=False, is_elsewhere=is_elsewhere
            )
            return _follow(session, process, early, readiness)
        if plan.stdin == "fed":
            feed(process)
        return _stay(
            client,
            process,
            plan,
            terminal,
            keys=keys,
            early=early,
            readiness=readiness,
            state_dir=layout.root,
            is_elsewhere=is_elsewhere,
            is_forgotten=options.is_forgotten,
        )


def _placed(options: ForegroundOptions, client: Client) -> tuple[ForegroundOptions, bool]:
    """Return the options with the backend that the server would choose, and whether that is another
    machine.
    """
    if far_url() is not None:
        return options, True
    if options.backend is None and (backend := client.default_backend()) != LOCAL:
        options = options._replace(passed={**options.passed, "backend": backend})
    if options.is_placed and options.backend is None and client.nodes():
        options = options._replace(passed={**options.passed, "backend": ANY})
    return options, options.backend not in {None, LOCAL, DOCKER}


def _say_waiting(info: ProcessInfo, client: Client) -> None:
    """Say what a command waits for that has not begun."""
    if info.hint is not None:
        say(f"outlive: {info.hint}")
    elif info.waits_for == "place" and info.process_id in client.fleet.list().get("unfit", ()):
        say("outlive: No machine that is known has what it needs: it waits for one (outlive node ls).")
    elif info.waits_for == "place":
        say("outlive: It waits until a machine has room for it.")


def _stay(
    client: Client,
    process: Process,
    plan: Plan,
    terminal: OwnTerminal | None,
    *,
    keys: DetachKeys,
    early: EarlySignals,
    readiness: Readiness | None,
    state_dir: str,
    is_elsewhere: bool,
    is_forgotten: bool,
) -> int:
    has_terminal = plan.stdio == "pty"

    def gone(stream: Stream) -> None:
        if has_terminal:
            process.signal("HUP", whole_group=True)
        else:
            process.close_output(stream)

    def ended(cursor: Cursor) -> None:
        if is_forgotten:
            _forget(client, process)
        elif not has_terminal:
            leave_behind(process, cursor, state_dir, delivery)

    delivery = Delivery(process, releases=True, gone=gone)
    session = ForegroundSession(
        process,
        delivery,
        terminal=terminal,
        has_terminal=has_terminal,
        keys=keys,
        types=plan.stdin == "typed",
        ended=ended,
        is_elsewhere=is_elsewhere,
    )
    session.begin()
    return _follow(session, process, early, readiness)


def _forget(client: Client, process: Process) -> None:
    """Remove a process that has ended; what it has left running keeps it, and is said."""
    try:
        client.remove(process.process_id)
    except OutliveError as error:
        show_error(error)


def _follow(
    session: ForegroundSession, process: Process, early: EarlySignals, readiness: Readiness | None
) -> int:
    """Show a process until it ends, is ready, or is left.

    Return its exit code, or die of the signal that it died of.
    """
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
    try:
        _show_started(process, options)
    except OSError:
        say(f"outlive: {process.process_id} was started, and goes on")  # else nobody would know its name
        raise
    completion = None if readiness is None else readiness.wait(process)
    if completion is None:
        return 0
    code, _ = exit_as(process, completion)
    return _end(code, 0, readiness)


def _show_started(process: Process, options: ForegroundOptions) -> None:
    if options.as_json:
        info = process.info()
        sandbox = {"profile": info.profile, "features": info.features}
        shown = {"process_id": process.process_id, "pid": process.pid, "sandbox": sandbox}
        repeated = {} if process.is_new else {"repeated": True}
        show_json({**shown, "short_id": info.short_id, "name": info.name, **repeated})
    else:
        show(process.process_id)


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


def _is_program(word: str) -> bool:
    import shutil  # noqa: PLC0415 -- start-up time: only a word of another program's asks

    return shutil.which(word) is not None


def _known(word: str, server: ServerFlags) -> int | None:
    """Start again what a word names that is no program, as `start web` of other programs means; None: it
    names nothing.
    """
    if _is_program(word):
        return None
    from outlive.cli.verbs.rerun import start_again  # noqa: PLC0415 -- as above

    return start_again(word, server)


def _check_inside(word: str, server: ServerFlags) -> None:
    """Refuse to run something in what a word names that is no program, as `docker exec web sh` means.

    Raises:
        InvalidRequest: It names a process.
    """
    if _is_program(word):
        return
    with a_client(server.state_dir, no_start=True, say=say_nothing) as client:
        try:
            find_process(client, word)
        except OutliveError:
            return
    text = f"{word!r} is a process, and nothing can be run inside of one."
    hint = (
        f"`outlive send {word} TEXT` types into it, `outlive attach {word}` shows it, `outlive run -- "
        "PROGRAM` runs beside it."
    )
    raise InvalidRequest("invalid_params", text, hint=hint)


def _of_start(
    member: str, *short: str, metavar: str, more: str = "", kind: Literal["one", "many", "switch"] = "one"
) -> Parameter:
    """Return the flag for an option that every frontend takes: its sentence is `operations.start`'s; `more`
    stands behind it.
    """

    def about() -> str:
        declared = _declared(member)
        words = [declared["description"], more]
        if "integer" in declared.get("type", ()):
            words.append(f" [{declared['minimum']}<=x<={declared['maximum']}]")
        return " ".join(filter(None, words))

    flag = f"--{member.removesuffix('_s').replace('_', '-')}"
    return Parameter(member, kind, metavar, about, (flag, *short))


def _declared(member: str) -> Mapping[str, Any]:
    """Return the schema of an option of a start, by its name here."""
    # Start-up time: only a help page, the shell's completion or a flag with a bound asks for it.
    from outlive.operations.schemas import arguments_schema  # noqa: PLC0415
    from outlive.operations.start import StartOptions  # noqa: PLC0415

    found: Mapping[str, Any] = arguments_schema(StartOptions)["properties"][member.removesuffix("_s")]
    return found


def _within_bounds(member: str, text: str) -> int:
    """Read a whole number as every frontend does."""
    declared = _declared(member)
    return whole_number(text, least=declared["minimum"], most=declared["maximum"])


def _flag_of(member: str, kind: object) -> Parameter:
    """Return the flag of one of the client's `FlagOptions`.

    Its type says how its value is read and what stands for it.
    """
    short, metavar, more = _SAID.get(member, ((), "", ""))
    one, *_ = get_args(kind)  # the type beside None
    of_start = functools.partial(_of_start, member, *short, more=more)
    if one is float:
        return of_start(metavar=TIME)._replace(read=parse_duration)
    if one is int:
        return of_start(metavar="COUNT")._replace(read=functools.partial(_within_bounds, member))
    if member == "profile":
        return of_start(metavar="PROFILE")._replace(read=_profile)
    found = of_start(metavar=metavar or "|".join(get_args(one)) or member.upper())
    return found._replace(read=one_of(found.choices)) if found.choices else found


def _profile(text: str) -> str:
    from outlive.core.command import Profile  # noqa: PLC0415 -- start-up time: most commands name none

    return one_of(tuple(Profile))(text)


# Where more is to be said than the type and the declaration of the option do: short flags, the metavar, a
# sentence.
_SAID: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "timeout_s": ((), "", "It exits with 124 then."),
    "group": (("-g",), "NAME", ""),
    "profile": ((), "", "The server's default, or a stronger one."),
    "backend": ((), "NAME", "The server's default else."),
    "key": ((), "KEY", ""),
    "name": ((), "NAME", ""),
    "grant": ((), "SCOPE[:TIME]", ""),
}
_OTHER_FLAGS: Mapping[str, tuple[str, ...]] = {
    "name": ("-s", "-l", "--label"),  # tmux, pueue
    "backend": ("--node",),
}
# What goes to the server as it is, if it is given.
_PASSED = tuple(
    _flag_of(member, kind)._replace(other_flags=_OTHER_FLAGS.get(member, ()))
    for member, kind in FlagOptions.__annotations__.items()
)
_PARAMETERS = (
    places(
        "argv", "[--] COMMAND...", about="A program and its arguments.", is_required=False, ends_flags=True
    ),
    option("--shell", "-c", metavar="LINE", about="A shell line instead.", to="line"),
    switch("--detach", "-d", about="Print its id and leave it running.", to="is_detached"),
    switch(
        "--interactive",
        "-i",
        about="Keep its input open, for `outlive send`; in the foreground its input is yours anyway.",
        to="is_interactive",
    ),
    switch("--rm", about="Forget it at its end, its output too.", to="is_forgotten"),
    switch(
        "--pty",
        "-t",
        off="--no-pty",
        about="Give it a terminal, or not; by default where stdin and stdout are one.",
        default=None,
    )._replace(other_flags=("--tty",)),
    option(
        "--wait-for",
        metavar="TEXT|:PORT",
        about="Return once its output contains the text, or it listens on the port; it runs on.",
    ),
    _of_start("tags", metavar="NAME=VALUE", kind="many")._replace(flags=("--tag",), read=pair),
    # These three mean something else where the caller has a folder and an environment of its own.
    option("--cwd", "-w", metavar="FOLDER", about="Its working folder instead of this one.")._replace(
        other_flags=("--workdir", "--working-directory")
    ),
    options("--env", "-e", metavar="NAME=VALUE", about="Added to the environment.", to="env")._replace(
        read=variable
    ),
    options(
        "--secret",
        metavar="NAME",
        about="A variable of yours that is given to it and written nowhere.",
        to="secrets",
    ),
    _of_start("limits", metavar="NAME=VALUE", more=f"{LIMIT_EXAMPLES}.", kind="many")._replace(
        flags=("--limit",), read=limit
    ),
    _of_start("needs", metavar="NAME=VALUE", more=f"Also labels: {NEED_EXAMPLES}.", kind="many")._replace(
        flags=("--need",), read=need
    ),
    option("--same-node-as", metavar="PROCESS", about="Beside this process, on the same machine."),
    switch("--spread", about="Rather on a machine that runs fewer of its group.", to="is_spread"),
    switch(
        "--no-wait", about="Refuse it where no machine has room, rather than let it wait.", to="is_refused"
    ),
    *_PASSED,
    _of_start("replace", metavar="", kind="switch")._replace(default=False),
    _of_start("notify", metavar="", kind="switch")._replace(default=False),
    option(
        "--notify-on",
        metavar="EVENTS",
        about="As --notify, of some only: end, failure, question, silence, separated by commas.",
    ),
    DETACH_KEYS,
)
# How `start web` and `exec web sh` of other programs are told from `run` (`aliases`).
_HIDDEN = (
    switch("--known", about="Start again what a single word names.", to="may_be_known")._replace(
        is_hidden=True
    ),
    switch("--inside", about="Refuse what a process's name stands before.", to="is_inside")._replace(
        is_hidden=True
    ),
)
_MORE = """Exits as the command did. 124: its time was up, 125: outlive failed, 126: not executable, 127: not found.
"""  # noqa: E501 -- lines of a table, or of another language


@takes(*_PARAMETERS, *_HIDDEN, *SERVER, more=_MORE.rstrip("\n"))
def run(*, server: ServerFlags, argv: list[str], **wanted: object) -> int:
    """Run the command, and end as it did."""
    if wanted.pop("may_be_known") and len(argv) == 1:
        if any(letter.isspace() for letter in argv[0]) and not os.path.exists(argv[0]):
            argv, wanted["line"] = [], argv[0]  # `add "ls -la"`: a shell line, as pueue and pm2 take it
        elif (code := _known(argv[0], server)) is not None:
            return code
    if wanted.pop("is_inside") and argv:
        _check_inside(argv[0], server)
    passed = {one.name: value for one in _PASSED if (value := wanted.pop(one.name)) is not None}
    if "group_limit" in passed and "group" not in passed:
        raise UsageError("--group-limit is about the commands of --group NAME")
    if not argv and wanted["line"] is None:
        raise UsageError(
            "Missing a command: `outlive run -- PROGRAM ARGUMENTS`, or `outlive run -c 'a shell line'`"
        )
    if wanted.pop("replace"):
        passed["replace"] = True
    is_notified, events = wanted.pop("notify"), wanted.pop("notify_on")
    if is_notified or events is not None:
        passed["notify"] = str(events).split(",") if events is not None else True
    # Every other parameter has the name of a field of `ForegroundOptions`.
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}
    options = ForegroundOptions(argv=tuple(argv), passed=passed, as_json=server.as_json, **found)  # type: ignore[arg-type] # the parser has typed them
    return run_command(options, state_dir=server.state_dir, no_start=server.no_start)
