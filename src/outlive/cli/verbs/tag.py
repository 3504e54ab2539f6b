"""`outlive tag`: a process's tags, set and removed."""

from collections.abc import Sequence

from outlive.cli.output import say, show_json
from outlive.cli.parameters import NAME, SERVER, ServerFlags, places, takes
from outlive.cli.processes import connected, find_process, view
from outlive.client import InvalidRequest


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
    with connected(server) as client:
        wanted = _read_changes(changes)
        info = find_process(client, name).relabel(wanted)
    if server.as_json:
        show_json({"process": view(info)})
    else:
        tags = " ".join(f"{name}={value}" for name, value in sorted(info.tags.items()))
        say(f"{info.process_id} has {tags or 'no tags'}")
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
