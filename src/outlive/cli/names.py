"""What a person may call a process on the command line: its id, the end of its id, or its pid."""

from outlive.client import Client, InvalidRequest, Process, ProcessNotFound
from outlive.client.results import ProcessInfo
from outlive.core.identity import is_process_id

_SHORT = 6  # the random end of an id; a thousand processes rarely share one
_RECENT = 1000


def short_name(process_id: str) -> str:
    """Return what lists show: enough of the id's end to be typed."""
    return process_id[-_SHORT:]


def find_process(client: Client, name: str) -> Process:
    """Return the process that is meant: a whole id, the end of one among the newest thousand, or a live pid.

    Raises:
        ProcessNotFound: There is none.
        InvalidRequest: Several ids end so.
    """
    if is_process_id(name):
        return client.get(name)
    found = matching(name, client.list(limit=_RECENT))
    if not found:
        text = f"No process is called {name[:60]!r}."
        raise ProcessNotFound("process_not_found", text, hint="`outlive ps --all` lists them.")
    if len(found) > 1:
        names = ", ".join(info.process_id for info in found[:5])
        raise InvalidRequest(
            "process_ambiguous", f"{len(found)} processes are called so.", hint=f"Type more of one: {names}."
        )
    return client.get(found[0].process_id)


def matching(name: str, infos: list[ProcessInfo]) -> list[ProcessInfo]:
    """Return those whose id ends with `name`; if none does, the one that lives under it as a pid. Pure."""
    ends = [info for info in infos if name and info.process_id.endswith(name.lower())]
    return ends or [
        info for info in infos if name.isascii() and name.isdigit() and info.pid == int(name) and _lives(info)
    ]


def _lives(info: ProcessInfo) -> bool:
    return info.ended_at is None
