"""`outlive events`: what happens to processes, as it happens, a line each."""

from collections.abc import Sequence
from dataclasses import dataclass

from outlive.cli.far import a_client
from outlive.cli.names import find_process, short_name
from outlive.cli.output import say, show, show_json
from outlive.cli.processes import parse_tags, view
from outlive.cli.tables import outcome, shown_command
from outlive.client import ProcessEvent

_PATIENCE_S = 24 * 3600.0  # who follows events stays, however long the server is away
_ENDS = frozenset({"ended", "closed", "removed"})  # told with how it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the command line asked for: names of processes, a group, tags as "name=value", states, events."""

    names: Sequence[str]
    group: str | None
    tags: Sequence[str]
    states: Sequence[str]
    events: Sequence[str]


def show_events(state_dir: str | None, wanted: Wanted, *, no_start: bool, as_json: bool) -> None:
    """Print events from now on; ends with an interrupt, or when the server does not come back."""
    tags = parse_tags(wanted.tags)
    with a_client(state_dir, no_start=no_start, patience_s=_PATIENCE_S) as client:
        names = [find_process(client, name).process_id for name in wanted.names]
        listening = client.events(
            events=[*wanted.events, "missed"] if wanted.events else None,
            process_ids=names or None,
            group=wanted.group,
            tags=tags or None,
            states=wanted.states or None,
        )
        with listening as events:
            say("outlive: events from now on; Ctrl-C ends this.")  # scripts wait for this line, too
            for event in events:
                if as_json:
                    show_json(_as_json(event))
                else:
                    show(event_line(event))


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
