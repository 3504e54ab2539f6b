"""`outlive restart`: services or processes anew, in the place of those that live."""

from collections.abc import Sequence

from outlive.cli.far import far_url
from outlive.cli.parameters import NAMES, SERVER, ServerFlags, seconds, takes
from outlive.cli.processes import connected
from outlive.cli.verbs.rerun import SECRETS, repeat_each
from outlive.client import Client, InvalidRequest, StackInfo
from outlive.extensions.services.down import TIMEOUT
from outlive.extensions.services.project_file import known_stack
from outlive.extensions.services.settlement import settle
from outlive.extensions.services.up import FILE


@takes(
    NAMES._replace(about="Services of this folder's project, or processes."),
    seconds("--grace", about="Time between TERM and KILL; services have their own.", to="grace_s")._replace(
        flags=("--grace", "-t")
    ),
    SECRETS,
    FILE,
    TIMEOUT._replace(about="Wait no longer for services to be ready; 124 then."),
    *SERVER,
)
def restart(
    *,
    names: list[str],
    grace_s: float | None,
    secrets: list[str],
    file: str | None,
    timeout_s: float,
    server: ServerFlags,
) -> int:
    """Run services or commands again in the place of those that live.

    Raises:
        InvalidRequest: Both are named at once.
    """
    with connected(server) as client:
        stack = known_stack(client, file) if far_url() is None else _far_stack(client, names)
        known = set() if stack is None else {one.name for one in stack.services}
        services = [name for name in names if name in known]
        if stack is not None and len(services) == len(names):
            begun = client.services.restart(stack.folder, names=services)
            return settle(client, begun, services, timeout_s=timeout_s, as_json=server.as_json)
    if services:
        text = f"Of these only {', '.join(services)} are services."
        raise InvalidRequest(
            "invalid_params", text, hint="Restart services and other processes one after the other."
        )
    if file is not None:
        text = f"No service of {file} is called {names[0][:60]!r}."
        raise InvalidRequest("invalid_params", text, hint="`outlive up` starts what the file declares.")
    return repeat_each(names, server, secrets=secrets, stops=True, grace_s=grace_s)


def _far_stack(client: Client, names: Sequence[str]) -> StackInfo | None:
    """Return the services of another machine that have all these names; None where there are none.

    Raises:
        InvalidRequest: Those of several folders have: this folder says nothing about that machine.
    """
    found = [
        one for one in client.services.list() if set(names) <= {service.name for service in one.services}
    ]
    if len(found) > 1:
        text = f"Services of several folders are called so: {', '.join(one.folder for one in found[:5])}."
        raise InvalidRequest("process_ambiguous", text, hint="Restart them on that machine, in their folder.")
    return found[0] if found else None
