"""`outlive ps`: processes in a table, newest first: those that live, or all."""

from datetime import UTC, datetime

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import GROUP, OPTIONAL_NAMES, SERVER, TAGS, ServerFlags, count, switch, takes
from outlive.cli.processes import connected, find_process, parse_tags, say_degraded, view
from outlive.cli.tables import process_rows, shown_table
from outlive.core.identity import short_name
from outlive.discovery.project import own_project


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
    if server.as_json:
        more = {} if degraded is None else {"degraded": degraded}
        show_json({"processes": [view(info) for info in infos], **more})
        return 0
    if quiet:
        show("\n".join(info.process_id for info in infos)) if infos else None
    elif infos:
        show(shown_table(process_rows(infos, now=datetime.now(UTC), project=project)))
        if left := next((info for info in infos if info.descendants), None):
            name = short_name(left.process_id)
            say(f"outlive: what a command has left running is ended by `outlive stop {name}`.")
    else:
        say("No process is known." if all_of_them else "Nothing runs.")
    if degraded is not None:
        say_degraded(degraded)
    return 0
