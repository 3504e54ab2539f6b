"""`outlive inspect`: everything about processes."""

from outlive.cli.output import show, show_json
from outlive.cli.parameters import NAMES, SERVER, ServerFlags, takes
from outlive.cli.processes import connected, find_process, view
from outlive.cli.tables import describe


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
