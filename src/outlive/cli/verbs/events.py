"""`outlive events`: what happens to processes, as it happens, a line each."""

from outlive.cli.far import a_client
from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import GROUP, OPTIONAL_NAMES, SERVER, TAGS, ServerFlags, options, takes
from outlive.cli.processes import find_process, parse_tags, view
from outlive.cli.tables import fitted, outcome, shown_command
from outlive.client import ProcessEvent
from outlive.core.identity import short_name

_EVENT_WORDS = (
    "queued|approval_requested|approval_decided|started|recovered|paused|resumed|stopping|ended|"
    "closed|relabeled|session_ended|removed|rejected|keeper_connected|keeper_disconnected|"
    "node_connected|node_away|missed"
)
_STATE_WORDS = "queued|starting|running|paused|stopping|exited|signaled|failed_to_start|lost"
_PATIENCE_S = 24 * 3600.0  # a call that follows events stays, however long the server is away
_ENDS = frozenset({"ended", "closed", "removed"})  # shown with how it ended


@takes(
    OPTIONAL_NAMES,
    GROUP,
    TAGS,
    options("--state", metavar=_STATE_WORDS, about="Only of processes in this state then.", to="states"),
    options("--event", metavar=_EVENT_WORDS, about="Only events of this name.", to="wanted"),
    *SERVER,
)
def events(
    *,
    names: list[str],
    group: str | None,
    tags: list[str],
    states: list[str],
    wanted: list[str],
    server: ServerFlags,
) -> int:
    """Print events from now on; ends with an interrupt, or when the server does not come back."""
    wanted_tags = parse_tags(tags)
    with a_client(server.state_dir, no_start=server.no_start, patience_s=_PATIENCE_S) as client:
        subscription = client.events(
            events=[*wanted, "missed"] if wanted else None,
            process_ids=[find_process(client, name).process_id for name in names] or None,
            group=group,
            tags=wanted_tags or None,
            states=states or None,
        )
        with subscription as stream:
            say("outlive: events from now on; Ctrl-C ends this.")  # scripts wait for this line, too
            for event in stream:
                if server.as_json:
                    show_json(_as_json(event))
                else:
                    show(fitted(event_line(event)))
    return 0


def event_line(event: ProcessEvent) -> str:
    """Return an event as a line for people. Pure."""
    time = event.at.astimezone().isoformat(sep=" ", timespec="milliseconds")
    if event.event == "missed":
        count = f"{event.missed} events are" if event.missed else "some events may be"
        return f"{time}  missed     {count} missing here"
    words = [f"{event.event:<9}"]
    info = event.info
    if info is not None:
        words.append(short_name(info.process_id))
        if event.event in _ENDS:
            words.append(outcome(info))
        words.append(shown_command(info))
        if info.group is not None:
            words.append(f"group={info.group}")
        words += [f"{name}={value}" for name, value in sorted(info.tags.items())]
    else:
        words += [word for word in (event.node, event.reason) if word is not None]
    return f"{time}  {'  '.join(words)}".rstrip()


def _as_json(event: ProcessEvent) -> dict[str, object]:
    return {
        "event": event.event,
        "at": event.at.isoformat(),
        "process_id": event.process_id,
        "process": None if event.info is None else view(event.info),
        "reason": event.reason,
        "missed": event.missed,
        "node": event.node,
    }
