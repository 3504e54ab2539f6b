"""`outlive up` runs a project's services, in the foreground with their output, or (-d) until they are ready;
`outlive down` stops them, `outlive restart` has services or processes anew, in the place of those that live.
"""

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from outlive.cli.far import a_client, far_url
from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import (
    NAMES,
    SERVER,
    ServerFlags,
    UsageError,
    option,
    places,
    seconds,
    switch,
    takes,
)
from outlive.cli.processes import connected
from outlive.cli.verbs.rerun import SECRETS, repeat_each
from outlive.client import BEGINNING, Client, Cursor, InvalidRequest, OutliveError, StackInfo
from outlive.core.command import listed_environment
from outlive.discovery.own_kind import own_nice, own_umask
from outlive.extensions.services.project_file import DeclaredProject, known_stack, needed_stack, read_project
from outlive.extensions.services.service_logs import ServiceFollow, ServicePrinter
from outlive.extensions.services.settlement import all_view, settle, until_settled

FILE = option(
    "--file",
    "-f",
    metavar="FILE",
    about="Declares the services, instead of the project's own file; or a folder in which it lies.",
    to="file",
)
SERVICES = places("names", "[SERVICE]...", about="Only these, with what they wait for.", is_required=False)
_DRAIN_S = 5.0  # the last output of what has ended is there by then
_MORE = """Reads outlive.processes.toml, else a Procfile, from here up to the project's root.
Ctrl-C stops the services (once more kills them); a closed terminal leaves them running. With -d they run on: `outlive down` stops them.
"""  # noqa: E501 -- lines of a table, or of another language


@takes(
    SERVICES,
    switch("--detach", "-d", about="Return when all are ready; they run on.", to="is_detached"),
    FILE,
    seconds(
        "--timeout",
        about="With -d: wait no longer for them to be ready; 124 then.",
        to="timeout_s",
        default=60.0,
    ),
    switch("--no-wait", about="With -d: do not wait at all."),
    switch("--dry-run", about="Read the file, say what it starts, and start nothing."),
    *SERVER,
    more=_MORE.rstrip("\n"),
)
def up(
    *,
    names: list[str],
    is_detached: bool,
    file: str | None,
    timeout_s: float,
    no_wait: bool,
    dry_run: bool,
    server: ServerFlags,
) -> int:
    """Bring services up; return 0 when all are ready (-d) or have ended well."""
    if server.as_json and (dry_run or not is_detached):
        raise UsageError("--json answers once: pass -d with it")
    project = read_project(file)
    if dry_run:
        meant = [(name, project.services[name].command) for name in sorted(_meant(names, project))]
        show(*(f"{name}: {line if isinstance(line, str) else shlex.join(line)}" for name, line in meant))
        return 0
    with a_client(server.state_dir, no_start=server.no_start) as client:
        before = {one.process_id for stack in client.services.list(project.folder) for one in stack.services}
        stack = _asked(client, project, names)
        if not is_detached:
            return _Foreground(client, project, names, before={one for one in before if one}).run(stack)
        if no_wait:
            show_json(all_view(stack)) if server.as_json else show(f"{len(stack.services)} services begin")
            return 0
        return settle(client, stack, _meant(names, project), timeout_s=timeout_s, as_json=server.as_json)


def _asked(client: Client, project: DeclaredProject, names: Sequence[str]) -> StackInfo:
    services: dict[str, dict[str, Any]] = msgspec.to_builtins(project.services)
    return client.services.up(
        project.folder,
        services,
        names=names,
        project=project.project,
        # Kept on disk, for a start that comes after this program's end: nothing else of this environment is
        # passed on.
        environment=listed_environment(os.environ),
        umask=own_umask(),
        nice=own_nice(),
    )


def _meant(names: Sequence[str], project: DeclaredProject) -> frozenset[str]:
    from outlive.extensions.services.declaration import with_needed  # noqa: PLC0415 -- here for its one use

    return frozenset(with_needed(names, project.services) if names else project.services)


class _Foreground:
    """`outlive up` without -d."""

    def __init__(
        self, client: Client, project: DeclaredProject, names: Sequence[str], *, before: set[str]
    ) -> None:
        """Show the output of a project's services; that of processes in `before` from now on only."""
        self._client = client
        self._folder = project.folder
        self._names = _meant(names, project)
        self._before = before
        printer = ServicePrinter(name for name in project.services if name in self._names)
        self._follow = ServiceFollow(client, self._folder, printer, names=self._names, says_states=True)
        self._signals: list[int] = []

    def run(self, stack: StackInfo) -> int:
        """Show output until nothing runs any more; return the exit code."""
        with self._heeding():
            self._follow.begin(stack)
            self._follow.take(stack, start=self._start)
            while not until_settled(stack, self._names, over=True):
                match self._follow.news.get():
                    case int(number):
                        if len(self._signals) > 2:
                            say("outlive: left; `outlive down` stops what runs.")
                            return 128 + number
                        self._stop()
                    case OutliveError() as error:
                        raise error
                    case StackInfo() as stack:
                        self._follow.take(stack, start=self._start)
            self._follow.join(_DRAIN_S)
        if self._signals:
            return 128 + self._signals[0]
        ends = (one for one in stack.services if one.name in self._names and one.state == "failed")
        return next((1 if one.exit_code is None else one.exit_code for one in ends), 0)

    def _start(self, process_id: str) -> Cursor:
        if process_id not in self._before:
            return BEGINNING
        return self._client.get(process_id).info().cursor

    def _stop(self) -> None:
        is_first = len(self._signals) < 2
        say("outlive: stopping the services (once more kills them)" if is_first else "outlive: killing them")
        grace_s = None if is_first else 0.0

        def stop() -> None:
            try:
                self._client.services.down(self._folder, names=sorted(self._names), grace_s=grace_s)
            except OutliveError as error:
                self._follow.news.put(error)

        # A server that is away for a moment must not keep the next signal from being heard.
        threading.Thread(target=stop, name="down", daemon=True).start()

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        """Turn SIGINT and SIGTERM into news while the block runs; SIGHUP leaves everything running."""

        def heed(number: int, _frame: object) -> None:
            self._signals.append(number)
            self._follow.news.put(number)

        old = {number: signal.signal(number, heed) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)


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
