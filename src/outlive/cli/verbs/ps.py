"""`outlive ps`: processes in a table, newest first: those that live, or all."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import GROUP, OPTIONAL_NAMES, SERVER, TAGS, ServerFlags, count, switch, takes
from outlive.cli.processes import connected, find_process, parse_tags, say_degraded, view
from outlive.cli.tables import needs_person, process_rows, service_sentence, shown_table
from outlive.client import Client, OutliveError, ProcessInfo, StackInfo
from outlive.core.identity import short_name
from outlive.kernel.project import own_project


@takes(
    OPTIONAL_NAMES,
    switch("--all", "-a", about="Those that have ended, too.", to="all_of_them"),
    switch("--quiet", "-q", about="Their ids alone, a line each."),
    switch("--project", about="Only those of this folder's project.", to="is_own_project"),
    GROUP,
    TAGS,
    count("--limit", "-n", metavar="COUNT", about="At most so many.", least=1, most=1000, default=50),
    *SERVER,
)
def ps(
    *,
    names: list[str],
    all_of_them: bool,
    quiet: bool,
    is_own_project: bool,
    group: str | None,
    tags: list[str],
    limit: int,
    server: ServerFlags,
) -> int:
    """Print processes, and what is wrong with the server if it can start nothing."""
    project = own_project()
    with connected(server) as client:
        # What is named is shown, whether it lives or not.
        infos = [find_process(client, name).info() for name in names] or client.list(
            active=None if all_of_them else True,
            group=group,
            tags=parse_tags(tags) or None,
            project=project if is_own_project else None,
            limit=limit,
        )
        degraded = client.degraded()
        stacks = _stacks(client)
    if server.as_json:
        more = {} if degraded is None else {"degraded": degraded}
        show_json({"processes": [view(info) for info in infos], **more})
        return 0
    if quiet:  # ids alone: they are another program's words
        for info in infos:
            show(info.process_id)
        return 0
    infos = sorted(infos, key=needs_person, reverse=True)  # what needs a person comes first
    if infos:
        rows = process_rows(infos, now=datetime.now(UTC), project=project)
        show(*shown_table(_with_restarts(rows, infos, stacks)))
        if left := next((info for info in infos if info.descendants), None):
            name = short_name(left.process_id)
            say(f"outlive: what a command has left running is ended by `outlive stop {name}`.")
    else:
        say("No process is known." if all_of_them else "Nothing runs.")
    _say_rests(stacks, project)
    if degraded is not None:
        say_degraded(degraded)
    return 0


def _stacks(client: Client) -> Sequence[StackInfo]:
    """Return all services; none where this caller may not see them."""
    with contextlib.suppress(OutliveError):
        return client.services.list()
    return ()


def _with_restarts(
    rows: Sequence[tuple[str, ...]], infos: Sequence[ProcessInfo], stacks: Sequence[StackInfo]
) -> list[tuple[str, ...]]:
    """Return the rows with how often each service was started again behind its state."""
    restarts = {one.process_id: one.restarts for stack in stacks for one in stack.services if one.restarts}
    place = rows[0].index("STATE")
    return [
        rows[0],
        *(
            (*row[:place], f"{row[place]}, restarts {count}", *row[place + 1 :])
            if (count := restarts.get(info.process_id)) and info.ended_at is None
            else row
            for row, info in zip(rows[1:], infos, strict=True)
        ),
    ]


def _say_rests(stacks: Sequence[StackInfo], project: str) -> None:
    """Say what this project's services do that have no process now, and should have one."""
    for stack in stacks:
        services = {one.name: one for one in stack.services}
        for one in stack.services if stack.project == project else ():
            if one.state in {"backing_off", "failed"} or one.is_blocked:
                say(f"outlive: service {one.name}: {service_sentence(one, services)}")
