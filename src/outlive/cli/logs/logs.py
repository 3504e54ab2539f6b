"""`outlive logs`: the output of a process, from the log itself: whole, the last lines, matching lines, or as
it comes.

Reads the files (this machine's user owns them; no server needs to hold them in memory, or to run) and asks
the server only to follow (`log_follow`), and for a name that the folder does not show.
"""

import os

from outlive.cli.logs.log_view import LogShower, LogView
from outlive.cli.output import say
from outlive.cli.parameters import (
    OPTIONAL_NAMES,
    SERVER,
    ServerFlags,
    UsageError,
    count,
    option,
    switch,
    takes,
)
from outlive.core.errors import BackendUnavailable, InvalidRequest
from outlive.core.identity import LAST, SHORT_LENGTH, is_name, is_process_id, number_of
from outlive.core.layout import Layout
from outlive.discovery.state_folder import layout_of
from outlive.extensions.contract import extensions, load


@takes(
    OPTIONAL_NAMES._replace(note="default: all services of this project, else @last"),
    switch("--follow", "-f", about="Go on until the end."),
    option(
        "--since",
        metavar="TIME",
        about="Begin at a moment (10m ago, 14:30, 2026-01-31T12:00) or behind a cursor.",
    ),
    count("--tail", "-n", metavar="LINES", about="Only the last lines.", least=0)._replace(
        other_flags=("--lines",)
    ),
    option("--grep", metavar="TEXT", about="Only lines that contain it."),
    count("--context", "-C", metavar="LINES", about="Lines around each match.", least=0, most=100, default=0),
    switch("--ignore-case", "-i", about="Letters in either case."),
    option("--stream", metavar="stdout|stderr|both", about="Only one of them.", default="both"),
    switch("--timestamps", "-T", about="Before each line, when it was written."),
    switch("--raw", about="Hide no keys and passwords."),
    switch(
        "--unfiltered",
        about="What entered the `tail`, `head` or `grep` at the end of its line, where that was kept.",
    ),
    *SERVER,
)
def logs(*, names: list[str], stream: str, server: ServerFlags, **wanted: object) -> int:
    """Print output; return 1 when a text was looked for and not found, 3 when not all of it is there."""
    if len(names) > 1 and wanted["follow"]:
        raise UsageError("--follow is about one process; `outlive logs -f` alone follows all services")
    if wanted["timestamps"] and (wanted["grep"] is not None or server.as_json or not names):
        raise UsageError("--timestamps is about the output of a process: name it, without --grep and --json")
    if wanted["grep"] is None and (wanted["context"] or wanted["ignore_case"]):
        raise UsageError("--context and --ignore-case are about the lines of --grep TEXT")
    # Every other parameter has the name of a field of `LogView`.
    if wanted["unfiltered"] and (wanted["follow"] or stream == "stderr"):
        raise UsageError("--unfiltered is one stream of an ended process: leave out --follow and --stream")
    view = LogView(stream=stream, as_json=server.as_json, **wanted)  # type: ignore[arg-type] # the parser has typed them
    if not names:
        for one in extensions():
            if one.logs and (code := load(one.logs)(view, server)) is not None:
                return int(code)
        names = [LAST]
    codes = []
    for name in names:
        if len(names) > 1:
            say(f"==> {name} <==")
        codes.append(_show(layout_of(server.state_dir), name, view, server))
    return max(codes)


def _show(layout: Layout, name: str, view: LogView, server: ServerFlags) -> int:
    from outlive.cli.far import far_url  # noqa: PLC0415 -- start-up time

    if far_url() is not None:
        if view.unfiltered:
            raise UsageError("--unfiltered reads this machine's files, not another server's")
        return _show_far(name, view)
    if view.raw:
        from outlive.cli.operator.audit import check_raw  # noqa: PLC0415 -- as above

        check_raw(layout)
    process_id = _known_here(layout, name)
    if process_id is not None and not view.follow:
        return _show_file(layout, process_id, view)
    # Half of the time of a short call would be the client's import.
    from outlive.cli.processes import connected, find_process  # noqa: PLC0415

    try:
        with connected(server) as client:
            process = find_process(client, process_id or name)
            if not view.follow:
                return _show_file(layout, process.process_id, view)
            from outlive.cli.logs.log_follow import follow  # noqa: PLC0415 -- as above

            return follow(_shower(layout, process.process_id, view), process)
    except BackendUnavailable:
        # Without a server a word that might be a name can only be the end of an id.
        if view.follow or (process_id := _ending(layout, name)) is None:
            raise
        return _show_file(layout, process_id, view)


def _show_file(layout: Layout, process_id: str, view: LogView) -> int:
    """Show a log of ours as far as it goes; of what stood before a filter also how it ended.

    Raises:
        InvalidRequest: Nothing was kept beside this process.
    """
    if not view.unfiltered:
        return _shower(layout, process_id, view).show()
    from outlive.store.unfiltered import look_unfiltered  # noqa: PLC0415 -- start-up time

    kept = look_unfiltered(layout.process(process_id))
    if kept is None:
        text = "Nothing was kept beside this process's output."
        hint = (
            "MCP's run keeps what enters a final tail, head or grep. Leave the filter out, and use "
            "--tail or --grep here."
        )
        raise InvalidRequest("invalid_params", text, hint=hint)
    found = _shower(layout, process_id, view).show()
    if kept.exit_code_before is not None and not view.as_json:
        say(f"outlive: before the filter: exit code {kept.exit_code_before}")
    return found


def _shower(layout: Layout, process_id: str, view: LogView) -> LogShower:
    """Return what shows a log of ours; what it shows raw is entered in the audit log now."""
    shower = LogShower(layout, process_id, view)
    # What is followed without a text to look for comes from the server, which enters that itself.
    if view.raw and (view.grep is not None or not view.follow):
        from outlive.cli.operator.audit import record_raw  # noqa: PLC0415 -- as above

        record_raw(layout, process_id, shower.cursor, shower.end)
    return shower


def _show_far(name: str, view: LogView) -> int:
    """Show a log of another server."""
    from outlive.cli.far import a_client  # noqa: PLC0415 -- as above
    from outlive.cli.logs.log_follow import fetched, follow, losses_of  # noqa: PLC0415 -- as above
    from outlive.cli.processes import find_process  # noqa: PLC0415 -- as above

    if view.since is not None and "." not in view.since:
        text = "--since a moment needs the log's own times, which lie on the other machine."
        raise InvalidRequest("invalid_params", text, hint="Pass a cursor, or use --tail.")
    with a_client(None, no_start=True) as client:
        process = find_process(client, name)
        with fetched(process, raw=view.raw) as (layout, keep):
            shower = LogShower(layout, process.process_id, view, is_hidden=True)
            if view.follow:
                return follow(shower, process, keep=keep)
            return shower.show(losses=losses_of(process))


def _known_here(layout: Layout, name: str) -> str | None:
    """Return the one process whose folder shows that it is meant; None where the server has to be asked."""
    if is_process_id(name):
        return name if os.path.isdir(layout.process(name)) else None
    # A name, a short id and a pid the server alone knows; what none of these can be is the end of an id.
    if len(name) < SHORT_LENGTH or name.isdigit() or number_of(name) is not None or is_name(name):
        return None
    return _ending(layout, name)


def _ending(layout: Layout, name: str) -> str | None:
    """Return the one process whose id ends so."""
    try:
        folders = os.listdir(layout.processes)
    except OSError:
        return None
    found = [one for one in folders if one.endswith(name.lower()) and is_process_id(one)]
    return found[0] if len(found) == 1 else None
