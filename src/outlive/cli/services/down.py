"""`outlive down` stops a project's services; what `outlive restart` does with them is here, too."""

from collections.abc import Sequence

from outlive.cli.parameters import SERVER, ServerFlags, places, seconds, switch, takes
from outlive.cli.processes import connected
from outlive.cli.services.project_file import needed_stack
from outlive.cli.services.settlement import settle
from outlive.cli.services.up import FILE
from outlive.client import Client

TIMEOUT = seconds("--timeout", about="Wait no longer; 124 then.", to="timeout_s", default=60.0)


@takes(
    places("names", "[SERVICE]...", about="Only these.", is_required=False),
    FILE,
    seconds("--grace", about="Time until KILL, instead of each service's own.", to="grace_s", least=0),
    switch("--kill", about="Kill them at once, as --grace 0."),
    TIMEOUT,
    *SERVER,
)
def down(
    *,
    names: list[str],
    file: str | None,
    grace_s: float | None,
    kill: bool,
    timeout_s: float,
    server: ServerFlags,
) -> int:
    """Stop services, those that wait for others first, and return when they have ended."""
    with connected(server) as client:
        folder = needed_stack(client, file).folder
        stack = client.services.down(folder, names=names, grace_s=0.0 if kill else grace_s)
        meant = names or [one.name for one in stack.services]
        return settle(client, stack, meant, timeout_s=timeout_s, as_json=server.as_json, stops=True)


def restart_services(
    client: Client, folder: str, names: Sequence[str], *, timeout_s: float, as_json: bool
) -> int:
    """End services of a folder's file, start them again, and return when they are ready.

    One that does not run is started.

    Files of variables (env_file) are read again.
    """
    stack = client.services.restart(folder, names=names)
    return settle(client, stack, names, timeout_s=timeout_s, as_json=as_json)
