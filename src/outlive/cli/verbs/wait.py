"""`outlive wait`: until processes have ended, and then as they did."""

from outlive.cli.output import progress, say, show_json
from outlive.cli.parameters import NAMES, SERVER, ServerFlags, seconds, takes
from outlive.cli.processes import connected, find_process, view
from outlive.cli.tables import exit_status

_STILL_RUNNING = 124  # as timeout(1) says that the time is up


@takes(NAMES, seconds("--timeout", about="Wait no longer.", to="timeout_s"), *SERVER)
def wait(*, names: list[str], timeout_s: float | None, server: ServerFlags) -> int:
    """Return when all have ended: one process's exit status, or the first of several that is not 0; 124 after the time."""
    ends = []
    with connected(server) as client, progress("waiting", len(names)) as one_more:
        for name in names:
            ends.append(find_process(client, name).wait(timeout_s))
            one_more()
    if server.as_json:
        show_json({"processes": [view(info) for info in ends]})
    if any(not info.is_complete for info in ends):
        say("outlive: the time is up; what runs goes on.")
        return _STILL_RUNNING
    return next((status for info in ends if (status := exit_status(info))), 0)
