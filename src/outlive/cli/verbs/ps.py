"""`outlive ps`: processes in a table, newest first: those that live, or all."""

from datetime import UTC, datetime

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import GROUP, OPTIONAL_NAMES, SERVER, TAGS, ServerFlags, count, switch, takes
from outlive.cli.processes import connected, find_process, parse_tags, say_degraded, view
from outlive.cli.tables import needs_person, process_rows, shown_table
from outlive.core.identity import short_name
from outlive.extensions.contract import extensions, load
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
        is_table = not (server.as_json or quiet)
        beside = [load(one.listed)(client, project) for one in extensions() if is_table and one.listed]
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
        more = {process_id: words for found, _ in beside for process_id, words in found.items()}
        show(*shown_table(process_rows(infos, now=datetime.now(UTC), project=project, more=more)))
        if left := next((info for info in infos if info.descendants), None):
            name = short_name(left.process_id)
            say(f"outlive: what a command has left running is ended by `outlive stop {name}`.")
    else:
        say("No process is known." if all_of_them else "Nothing runs.")
    for _, sentences in beside:
        say(*(f"outlive: {sentence}" for sentence in sentences))
    if degraded is not None:
        say_degraded(degraded)
    return 0
