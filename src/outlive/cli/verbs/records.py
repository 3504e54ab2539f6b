"""`outlive inspect`, `rename` and `tag`: everything about processes, and what of it changes at any time."""

from collections.abc import Sequence

from outlive.cli.output import Answer, blocks
from outlive.cli.parameters import NAME, NAMES, SERVER, ServerFlags, place, places, takes
from outlive.cli.processes import connected, find_process, view
from outlive.cli.tables import describe
from outlive.client import InvalidRequest


@takes(NAMES, *SERVER)
def inspect(*, names: list[str], server: ServerFlags) -> Answer:
    """Print everything about processes."""
    with connected(server) as client:
        infos = [find_process(client, name).info() for name in names]
    return Answer({"processes": [view(info) for info in infos]}, blocks(map(describe, infos)))


@takes(NAME, place("new_name", "NAME", about="What it is called from now on."), *SERVER)
def rename(*, name: str, new_name: str, server: ServerFlags) -> Answer:
    """Give a process a name, and say so."""
    with connected(server) as client:
        info = find_process(client, name).relabel({}, name=new_name)
    return Answer({"process": view(info)}, said=[f"{info.process_id} is called {info.name}"])


@takes(
    NAME,
    places("changes", "NAME=VALUE|NAME-...", about="NAME=VALUE sets a tag, NAME- removes it."),
    *SERVER,
)
def tag(*, name: str, changes: list[str], server: ServerFlags) -> Answer:
    """Set and remove a process's tags, and say what it has then.

    Raises:
        InvalidRequest: A word is neither NAME=VALUE nor NAME-.
    """
    wanted = _read_changes(changes)
    with connected(server) as client:
        info = find_process(client, name).relabel(wanted)
    tags = " ".join(f"{name}={value}" for name, value in sorted(info.tags.items()))
    return Answer({"process": view(info)}, said=[f"{info.process_id} has {tags or 'no tags'}"])


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
