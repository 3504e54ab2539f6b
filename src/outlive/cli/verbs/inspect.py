"""`outlive inspect`: everything about processes."""

from outlive.cli.output import show, show_json
from outlive.cli.parameters import NAMES, SERVER, takes
from outlive.cli.processes import connected, find_process, view
from outlive.cli.tables import describe


@takes(NAMES, *SERVER)
def inspect(*, names: list[str], state_dir: str | None, no_start: bool, as_json: bool) -> int:
    """Print everything about processes."""
    with connected(state_dir, no_start=no_start) as client:
        infos = [find_process(client, name).info() for name in names]
    if as_json:
        show_json({"processes": [view(info) for info in infos]})
    else:
        show("\n\n".join(map(describe, infos)))
    return 0
