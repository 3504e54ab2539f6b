"""What a project declares of a service: `ServiceRequest`, and what all services of a project need of each
other. Pure.

A project's file and every door's request hold the same members, declared here once. Reading the file belongs
to `services_file`; what follows from a declaration while the service lives to `machine`.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.core.errors import InvalidRequest
from outlive.core.identity import NAME_PATTERN, is_name
from outlive.core.lifecycle import signal_number
from outlive.operations.requests import MAX_S, Count, ProfileName, ProjectFolder, Seconds, Text
from outlive.operations.start import LimitsRequest, check_variables, check_words

_is_named = re.compile(NAME_PATTERN).fullmatch
# More than a project of a person has; each service that runs is followed by a client over a connection of its
# own.
MAX_SERVICES = 64
_MAX_PORT = 65535
# Loopback only, and no user name, space or control character: nothing of it can mean another host, or a
# second request.
_read_address = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?(/[!-~]*)?").fullmatch

Port = Annotated[int, Meta(ge=1, le=_MAX_PORT)]
ServiceName = Annotated[str, Meta(pattern=NAME_PATTERN)]
RestartPolicy = Literal["no", "on-failure", "always"]


class ReadyWhen(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """When a service is ready; exactly one of these."""

    port: Annotated[Port | None, Meta(description="It listens on this TCP port.")] = None
    text: Annotated[Text | None, Meta(description="Its output contains this text.")] = None
    pattern: Annotated[
        Text | None, Meta(description="A line of its output matches this regular expression.")
    ] = None
    http: Annotated[
        Text | None,
        Meta(description="GET of this address answers with a status from 200 to 399: http, of this machine."),
    ] = None
    exit: Annotated[bool, Meta(description="It has ended with 0: for a job that others wait for.")] = False

    def __post_init__(self) -> None:
        """Require one way, and an address that can be asked."""
        given = (self.port, self.text, self.pattern, self.http, self.exit or None)
        if sum(one is not None for one in given) != 1:
            raise ValueError("Pass exactly one of port, text, pattern, http and exit = true")
        if self.http is not None:
            split_address(self.http)


def split_address(address: str) -> tuple[str, int, str]:
    """Return host, port and target (path with query) of an address that readiness may ask.

    Loopback only: a server asks it on behalf of a caller that may have no network of its own.

    Raises:
        ValueError: It is none.
    """
    found = _read_address(address)
    port = int(found[2] or 80) if found is not None else 0
    if found is None or not 0 < port <= _MAX_PORT:
        raise ValueError("http is an address of this machine, as http://localhost:8000/health")
    return found[1].strip("[]"), port, found[3] or "/"


class Backoff(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How long a service rests before it is started again: `first`, then twice as long each time, up to
    `most`.

    One that ran for at least `most` begins with `first` again.
    """

    first: Annotated[Seconds, Meta(description="Seconds of the first rest.")] = 1.0
    most: Annotated[Annotated[float, Meta(ge=0.1, le=MAX_S)], Meta(description="Seconds of the longest.")] = (
        60.0
    )

    def after(self, tries: int) -> float:
        """Return the rest in seconds before a start that so many others without success went before."""
        # Beyond 63 doublings any rest is the longest one, and a float would overflow.
        return min(self.most, self.first * 2.0 ** min(tries, 63))


class ServiceRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One service."""

    command: Annotated[
        str | tuple[str, ...],
        Meta(description="A text is a shell's line; a list is a program and its words."),
    ]
    folder: Annotated[
        ProjectFolder | None, Meta(description="Its working folder; the project's, if left out.")
    ] = None
    environment: Annotated[
        dict[str, str], Meta(description="Variables that it gets; they are kept, so they hold no secrets.")
    ] = {}
    env_file: Annotated[
        tuple[ProjectFolder, ...],
        Meta(description="Files with further variables, read at each start and kept nowhere."),
    ] = ()
    ready: Annotated[
        ReadyWhen | None, Meta(description="When it is ready; as soon as it runs, if left out.")
    ] = None
    after: Annotated[
        tuple[ServiceName, ...], Meta(description="Services that have to be ready before it starts.")
    ] = ()
    restart: Annotated[RestartPolicy, Meta(description="When it is started again after its end.")] = "no"
    backoff: Annotated[Backoff, Meta(description="How long it rests before that.")] = Backoff()
    max_restarts: Annotated[
        Count | None,
        Meta(description="So many restarts in a row, and it has failed; any number, if left out."),
    ] = None
    stop_signal: Annotated[str, Meta(description="The signal that asks it to end.")] = "TERM"
    grace: Annotated[
        Seconds | None, Meta(description="Seconds between that signal and KILL; the server's, if left out.")
    ] = None
    terminal: Annotated[bool, Meta(description="Run it in a terminal: it may show colours.")] = False
    profile: Annotated[
        ProfileName | None, Meta(description="Its sandbox; the server's default, if left out.")
    ] = None
    limits: Annotated[LimitsRequest | None, Meta(description="Bounds below the server's own.")] = None

    def __post_init__(self) -> None:
        """Refuse what could never run."""
        is_line = isinstance(self.command, str)
        check_words(self.command if is_line else None, None if is_line else self.command)  # type: ignore[arg-type] # one of the two
        check_variables(self.folder, self.environment)
        signal_number(self.stop_signal)
        if self.is_job and self.restart == "always":
            raise ValueError(
                'With ready = { exit = true } it is over once it has ended with 0: restart is not "always"'
            )

    @property
    def is_job(self) -> bool:
        """Whether it is ready by ending with 0."""
        return self.ready is not None and self.ready.exit

    @property
    def text(self) -> str:
        """The command as people read it."""
        return self.command if isinstance(self.command, str) else " ".join(self.command)


def check_services(services: Mapping[str, ServiceRequest]) -> None:
    """Let services pass of which each can start at some time.

    Raises:
        InvalidRequest: A name is none, a service waits for one that is not there, or some wait for each
            other; the message names the service and the member.
    """
    if not services:
        raise InvalidRequest("invalid_params", "services: there is none.")
    if len(services) > MAX_SERVICES:
        raise InvalidRequest(
            "invalid_params", f"services: {len(services)} of them; {MAX_SERVICES} are the most."
        )
    for name, service in services.items():
        if _is_named(name) is None:
            text = f"services: {name[:70]!r} is no name of a service."
            hint = "A letter first, then letters, digits, _ . and -, 63 characters at most."
            raise InvalidRequest("invalid_params", text, hint=hint)
        if not is_name(name):
            # Its process could not be called so: a word means the same wherever it stands.
            text = f"services: {name!r} looks like an id, and could not be told from one."
            hint = f"Call it {unlike_an_id(name)!r}, for instance."
            raise InvalidRequest("invalid_params", text, hint=hint, details={"service": name})
        for other in service.after:
            if other not in services:
                raise InvalidRequest(
                    "invalid_params",
                    f"services.{name}.after: there is no service {other!r}.{did_you_mean(other, services)}",
                    details={"service": name, "member": "after"},
                )
    if ring := _ring(services):
        text = f"services.{ring[0]}.after: {' waits for '.join(ring)}: none of them would ever start."
        raise InvalidRequest("invalid_params", text, details={"service": ring[0], "member": "after"})


def unlike_an_id(name: str) -> str:
    """Return a name like one that looks like an id: "cache-1" for "cache1"."""
    letters = name.rstrip("0123456789")
    dashed = f"{letters}-{name[len(letters) :]}"
    return dashed if letters != name and is_name(dashed) else f"my-{name}"[:63]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'web'?" for a word that is much like a known one; else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def with_needed(names: Iterable[str], services: Mapping[str, ServiceRequest]) -> set[str]:
    """Return some services with all that they wait for, directly or not."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        if (name := pending.pop()) not in found:
            found.add(name)
            pending += services[name].after
    return found


def _ring(services: Mapping[str, ServiceRequest]) -> list[str]:
    """Return services of which each waits for the next one, the first once more at the end.

    Nothing where there is no ring.
    """
    done: set[str] = set()
    for start in services:
        path: list[str] = []
        # Depth first, without recursion: what is left to look at of each service on the path.
        pending = [iter((start,))]
        while pending:
            name = next(pending[-1], None)
            if name is None:
                pending.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return [*path[path.index(name) :], name]
            elif name not in done:
                path.append(name)
                pending.append(iter(services[name].after))
    return []
