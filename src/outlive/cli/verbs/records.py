"""`outlive inspect`, `rename` and `tag`: everything about processes, and what of it changes at any time."""

from collections.abc import Sequence

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import NAME, NAMES, SERVER, ServerFlags, place, places, takes
from outlive.cli.processes import connected, find_process, view
from outlive.cli.tables import describe
from outlive.client import InvalidRequest, ProcessInfo


@takes(NAMES, *SERVER)
def inspect(*, names: list[str], server: ServerFlags) -> int:
    """Print everything about processes."""
    with connected(server) as client:
        infos = [find_process(client, name).info() for name in names]
    if server.as_json:
        show_json({"processes": [view(info) for info in infos]})
    else:
        for number, info in enumerate(infos):
            show(*([""] if number else []), *describe(info))
    return 0


@takes(NAME, place("new_name", "NAME", about="What it is called from now on."), *SERVER)
def rename(*, name: str, new_name: str, server: ServerFlags) -> int:
    """Give a process a name, and say so."""
    with connected(server) as client:
        info = find_process(client, name).relabel({}, name=new_name)
    return _say_changed(info, f"is called {info.name}", as_json=server.as_json)


@takes(
    NAME,
    places("changes", "NAME=VALUE|NAME-...", about="NAME=VALUE sets a tag, NAME- removes it."),
    *SERVER,
)
def tag(*, name: str, changes: list[str], server: ServerFlags) -> int:
    """Set and remove a process's tags, and say what it has then.

    Raises:
        InvalidRequest: A word is neither NAME=VALUE nor NAME-.
    """
    wanted = _read_changes(changes)
    with connected(server) as client:
        info = find_process(client, name).relabel(wanted)
    tags = " ".join(f"{name}={value}" for name, value in sorted(info.tags.items()))
    return _say_changed(info, f"has {tags or 'no tags'}", as_json=server.as_json)


def _say_changed(info: ProcessInfo, said: str, *, as_json: bool) -> int:
    if as_json:
        show_json({"process": view(info)})
    else:
        say(f"{info.process_id} {said}")
    return 0


def _read_changes(words: Sequence[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name:
            changes[name] = value
        elif not equals and len(word) > 1 and word.endswith("-"):
            changes[word[:-1]] = None
        else:
            text = f"{word!r} is neither NAME=VALUE nor NAME-."
            raise InvalidRequest("invalid_params", text, hint="job=build sets a tag, job- removes it.")
    return changes
