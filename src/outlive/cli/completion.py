"""Which words may stand at the end of an unfinished command line: read from the tree of verbs.

The shells' scripts ask for them.

Completing starts this program at every press of the key: of the verbs only the one that is being completed is
imported. Where a process is named, a server that runs is asked for those of the current folder's project.
"""

from collections.abc import Sequence

from outlive.cli.help.help_page import shortened
from outlive.cli.output import plain, show
from outlive.cli.parameters import Parameter
from outlive.cli.program import Group, Verb, parameters_of, program

_ROOM = 100  # characters of a sentence beside a word
_OFFERED = 50  # processes: more fill the screen
_PATIENCE_S = 1.0  # a person waits for the shell


def complete_words(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return (word, help) for everything that the last of `words` may become.

    Nothing means a file, or anything.
    """
    *before, unfinished = words or [""]
    node: Group | Verb = program()
    parameters: Sequence[Parameter] = parameters_of(program())
    place = 0  # among the places
    state_dir: str | None = None
    wanted: Parameter | None = None  # whose value comes next
    for word in before:
        if wanted is not None:
            if wanted.name == "state_dir":
                state_dir = word
            wanted = None
        elif word.startswith("-"):
            flag = _flags(parameters).get(word)
            wanted = flag if flag is not None and flag.kind != "switch" else None
        elif isinstance(node, Group):
            below = node.find(word)
            if below is None:
                return []
            node = below
            parameters = parameters_of(node) if isinstance(node, Group) else node.action.parameters
        else:
            place += 1
    if wanted is not None:
        found = [(word, "") for word in wanted.choices]
    elif unfinished.startswith("-"):
        flags = _flags(parameters)
        found = [(word, flag.sentence) for word, flag in flags.items()] + [("--help", "")]
    elif isinstance(node, Group):
        found = [(one.name, shortened(one.about, _ROOM)) for one in node.verbs]
    else:
        found = _of_place(parameters, place, state_dir)
    return [(word, " ".join(about.split())) for word, about in found if word.startswith(unfinished)]


def _of_place(parameters: Sequence[Parameter], place: int, state_dir: str | None) -> list[tuple[str, str]]:
    """Return what may stand at a place of a verb, the last of which may take several words."""
    places = [one for one in parameters if not one.flags]
    if places and places[-1].kind == "many":
        place = min(place, len(places) - 1)
    if place >= len(places):
        return []
    asked = places[place]
    return _process_words(state_dir) if asked.is_process else [(word, "") for word in asked.choices]


def _process_words(state_dir: str | None) -> list[tuple[str, str]]:
    """Return what the current folder's project calls its newest processes, with their commands.

    Nothing without a server.
    """
    # Start-up time: the client is for the places of processes alone.
    from outlive.cli.far import a_client, far_url  # noqa: PLC0415
    from outlive.client import OutliveError  # noqa: PLC0415
    from outlive.kernel.project import own_project  # noqa: PLC0415

    project = own_project()
    try:
        if far_url() is not None:  # a key that is pressed waits for no network
            return []
        with a_client(state_dir, no_start=True, patience_s=_PATIENCE_S) as client:
            infos = client.list(project=project, limit=_OFFERED)
    except OutliveError:
        return []
    found: dict[str, str] = {}
    for info in infos:
        # The newest one of a name is what the name means, unless an older one lives: either way it is the
        # same word.
        for word in (info.name, info.short_id):
            if word is not None and info.project == project:
                found.setdefault(word, plain(info.command, _ROOM))
    return [*found.items()]


def show_candidates(shell: str, words: Sequence[str]) -> None:
    """Print what the last of `words` may become as the shell's script expects it.

    Fish and zsh show the help beside it.
    """
    for word, about in complete_words(words):
        if shell == "fish":
            show(f"{word}\t{about}")
        elif shell == "zsh":
            show(f"{word.replace(':', chr(92) + ':')}:{about}")
        else:
            show(word)


def _flags(parameters: Sequence[Parameter]) -> dict[str, Parameter]:
    return {
        flag: one
        for one in parameters
        if not one.is_hidden
        for flag in (*one.flags, *([one.off] if one.off else []))
    }
