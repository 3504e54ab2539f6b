"""`outlive down` stops a project's services."""

from outlive.cli.parameters import SERVER, ServerFlags, places, seconds, switch, takes
from outlive.cli.processes import connected
from outlive.extensions.services.project_file import needed_stack
from outlive.extensions.services.settlement import settle
from outlive.extensions.services.up import FILE

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
