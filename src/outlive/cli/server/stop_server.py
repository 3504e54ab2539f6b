"""`outlive stop-server`: the server is to end, on purpose; what runs lives on, with its keeper."""

from outlive.cli.output import say, show_json
from outlive.cli.parameters import JSON, STATE_DIR, switch, takes
from outlive.core.layout import Layout
from outlive.discovery.ownership import Ownership
from outlive.discovery.server_lock import stop_server
from outlive.discovery.state_folder import layout_of


@takes(
    switch("--kill", about="Kill a server that does not end."),
    STATE_DIR,
    JSON,
    more="Services are not started again until the next server; the next call of outlive starts one.",
)
def stop(*, kill: bool, state_dir: str | None, as_json: bool) -> int:
    """End the server."""
    pid = end_server(layout_of(state_dir), kill=kill)
    if as_json:
        show_json({"stopped": pid is not None, "pid": pid})
    elif pid is None:
        say("No server runs.")
    else:
        say(f"The server (pid {pid}) has ended.")
    return 0


def end_server(layout: Layout, *, kill: bool) -> int | None:
    """End the server, and say where the purpose cannot be noted; return its pid, None where none runs."""
    pid = stop_server(layout, kill=kill)
    if pid is not None and not Ownership(layout).is_stopped:
        say(f"outlive: {layout.server_stopped} cannot be written: the keeper may start a server again.")
    return pid
