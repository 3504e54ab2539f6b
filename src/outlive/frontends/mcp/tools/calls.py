"""The nouns of a tool call: the `Caller`, the `Outcome`, `Progress`, which carries output meanwhile, and
`SessionMemory`, what a server remembers of MCP sessions while it lives.

`allowed_patterns` applies the settings (promise S1.8) before every start. Which tools there are is `table`'s,
how a call waits is `runner`'s.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, TypeVar

import msgspec

from outlive.config import Settings
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.identity import ProcessId
from outlive.core.process import Owner
from outlive.core.values import dataclass, field
from outlive.engine import Process
from outlive.operations.requests import ProjectFolder
from outlive.operations.tool_sets import ToolSet
from outlive.policy.access import Access
from outlive.policy.patterns import CommandPatterns
from outlive.protocols.mcp.arguments import SHOWN_BYTES
from outlive.protocols.mcp.messages import MAX_ENVIRONMENT_BYTES
from outlive.protocols.mcp.tasks import Task, TaskCall
from outlive.protocols.mcp.texts import EXECUTION_DISABLED, SCRIPTS_DISABLED

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# New output as text, for notifications/progress; awaited, so that a slow client delays its own call alone.
Progress = Callable[[str], Awaitable[None]]


class Project(msgspec.Struct, kw_only=True, frozen=True):
    """Where a host works, as its relay sends it: absolute paths.

    `root` is the folder, or its repository's root: short ids, keys, workspaces and lists belong to it.
    Commands that name no folder begin in `cwd`, with the variables of `env`; both are the host's own.
    `tool_set` is the one that the host was configured for, None for the server's. `relay` is random, the same
    for as long as the relay lives: it tells relays apart, and so the hosts that work in one project.
    """

    cwd: ProjectFolder
    root: ProjectFolder
    env: dict[str, str] = {}
    tool_set: ToolSet | None = msgspec.field(default=None, name="tools")
    relay: Annotated[str, msgspec.Meta(max_length=64)] = ""

    def __post_init__(self) -> None:
        """Refuse what no command could be given."""
        # Here, once: at a start it would be refused after the caller has been given the impression of a
        # working session.
        if any("\0" in text for text in (self.cwd, self.root, *self.env, *self.env.values())):
            raise ValueError("NUL characters cannot be passed to a process")
        if sum(len(name) + len(value) + 2 for name, value in self.env.items()) > MAX_ENVIRONMENT_BYTES:
            raise ValueError(f"env has more than {MAX_ENVIRONMENT_BYTES} bytes")

    def __repr__(self) -> str:
        """Return the kind alone: an environment stands in no text."""
        return f"<{type(self).__name__}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client that calls a tool.

    `access`: its identity, and how much it may do. `connection_id`: the MCP session. `request_id`: the
    JSON-RPC id as a string (promise M.ids). `has_tasks`: the request declares the tasks extension. `is_raw`:
    the request names no MCP revision, as the documents' own callers do. `project`: where its host works; None
    for a client without a relay.
    `asked_tools`: the tool set that the address of its server names, None for none. `client`: the name of its
    program, in lower case; empty where it says none.
    `traceparent`: the span in which it calls, valid, "" for none.
    """

    access: Access
    connection_id: str | None = None
    request_id: str | None = None
    has_tasks: bool = False
    is_raw: bool = False
    project: Project | None = None
    asked_tools: ToolSet | None = None
    client: str = ""
    traceparent: str = ""

    @property
    def owner(self) -> Owner:
        """The owner of a process that it starts, and the author of what it does to others."""
        return self.access.owner(
            "mcp",
            connection_id=self.connection_id,
            request_id=self.request_id,
            traceparent=self.traceparent,
            host=self.client,
        )

    @property
    def project_root(self) -> str:
        """Where its host works, as `ProcessFilter` takes it: empty for a client of no project."""
        return "" if self.project is None else self.project.root

    @property
    def host_session(self) -> str:
        """What tells the sessions of one project apart: the MCP session, and without one the relay.

        Empty for a client of neither.
        """
        return self.connection_id or ("" if self.project is None else self.project.relay)

    @property
    def tool_set(self) -> ToolSet | None:
        """The tool set that its host was configured for; None for the server's."""
        return self.asked_tools or (None if self.project is None else self.project.tool_set)

    @property
    def principal(self) -> str:
        """The identity whose processes it sees."""
        return self.access.principal


@dataclass(slots=True, eq=False, kw_only=True)
class CallStatus:
    """What becomes of a call while its tool works: its door and its tool write it, and both read it.

    Only the event loop uses it.

    Attributes:
        note: The reason for its process's end once the caller has cancelled it; None before.
        is_given_up: Its host has lost its patience: what the call has started goes on.
        has_left: The connection that waited for the answer is lost, and no other one gets it.
        reported_at: When progress was last handed to the client, by the loop's clock; None before.
        started: Processes that the call has started, or is about to start, and that end with it if it is
            cancelled.
    """

    note: str | None = None
    is_given_up: bool = False
    has_left: bool = False
    reported_at: float | None = None
    started: list[ProcessId] = field(default_factory=list)

    def is_cancelled(self) -> bool:
        """Tell whether its caller has cancelled it; a method, because that changes while a task waits."""
        return self.note is not None

    def is_unheard(self) -> bool:
        """Tell whether no answer reaches the client: it has left, or has cancelled and waits for none."""
        return self.has_left or self.is_cancelled()


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A process that a call has left running because its time was up, and the call as its result depends on
    it.
    """

    process: Process
    call: TaskCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a tool answers: the text block, `structuredContent` where the tool has an output schema, isError.

    `unfinished`: what still runs although the caller has not asked for an early answer. `task`: it has become
    this task, which is the answer then.
    """

    text: str
    structured: Mapping[str, object] | None = None
    is_error: bool = False
    unfinished: Unfinished | None = None
    task: Task | None = None


class UnknownTool(InvalidRequest):
    """There is no tool of that name, or the setting `mcp_tools` leaves it out."""


def shown_bytes(settings: Settings, caller: Caller, asked: int | None = None) -> int:
    """Return how much of each stream a caller is shown that has `asked` for so much, or for nothing.

    A raw caller gets what the documents promise it, an official client, which a model reads, less
    (promise S1.8.clip).
    """
    if asked is None:
        asked = settings.max_output_bytes if caller.is_raw else SHOWN_BYTES
    return min(asked, settings.max_output_bytes)


def allowed_patterns(
    settings: Settings, *, has_script: bool = False, is_lean_and_open: bool = False
) -> CommandPatterns:
    """Return what decides whether a tool may run something, from the settings alone (promise S1.8).

    Raises:
        CommandRefused: Tools run nothing, or no scripts, with a text of promise S1.7.
    """
    for is_off, text in (
        (settings.tools_disabled, EXECUTION_DISABLED),
        (has_script and settings.scripts_disabled, SCRIPTS_DISABLED),
    ):
        if is_off:
            raise CommandRefused("command_not_allowed", text, hint="The operator has switched it off.")
    return CommandPatterns(
        allowed=settings.allowed_patterns,
        blocked=settings.blocked_patterns,
        allow_sudo=is_lean_and_open if settings.allow_sudo is None else settings.allow_sudo,
    )


class Recent(OrderedDict[_Key, _Value]):
    """Entries, least recently noted first; of more than `most` the first one goes."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def note(self, key: _Key, value: _Value) -> None:
        """Add an entry, or replace the one of that key, as the newest."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


# An agent's session has some hundred processes; those of a thousand sessions are 20 MB at the most.
# A client's name is its own claim, and each claim is a word here. What is forgotten is shown from the
# beginning again.
_MOST = 1000
_MOST_PROCESSES = 200


class SessionMemory:
    """What each session was shown, and which calls hosts gave up on. Only the event loop uses it.

    Nothing depends on it: after a restart output may be shown once more, and a command goes on in any case.
    What is noted here is left out of later answers, so the error that must not happen is a note of output
    that no host has received. A note too few only costs tokens: the same lines are shown once more.
    """

    def __init__(self) -> None:
        # Sessions, and the processes of each, least recently shown first. A cursor is a place in the log,
        # never a copy of output.
        self._shown: Recent[str, Recent[ProcessId, Cursor]] = Recent(_MOST)
        self._idle_waits: Recent[str, int] = Recent(_MOST)
        self._over: Recent[str, None] = Recent(_MOST)
        self._told_of_cd: Recent[str, None] = Recent(_MOST)
        # Processes by id, which no other principal can name: the session that gave one up may be over when it
        # is found again.
        self._given_up: Recent[ProcessId, None] = Recent(_MOST)
        # By principal and client, not by session: what is learned is a habit of the program, and holds for
        # its next session.
        self._patient: Recent[str, None] = Recent(_MOST)

    def shown(self, caller: Caller, process_id: ProcessId) -> Cursor:
        """Return up to where a session has seen a process's output."""
        seen = self._shown.get(_session_of(caller))
        return BEGINNING if seen is None else seen.get(process_id, BEGINNING)

    def was_over(self, caller: Caller, process_id: ProcessId) -> bool:
        """Tell whether a session was told of a process's end before."""
        return f"{_session_of(caller)} {process_id}" in self._over

    def note_cd(self, caller: Caller) -> bool:
        """Tell whether this is the first `cd` of a session that changes nothing."""
        name = _session_of(caller)
        is_first = name not in self._told_of_cd
        self._told_of_cd.note(name, None)
        return is_first

    def note_shown(
        self, caller: Caller, process_id: ProcessId, start: Cursor, cursor: Cursor, *, is_over: bool = False
    ) -> None:
        """Remember that output from `start` to `cursor` was shown, and whether the end was told with it.

        An earlier part that was read again changes nothing. Nor does a part further on: what lies before it
        was not shown yet, and the next answer begins there.
        """
        if is_over:
            self._over.note(f"{_session_of(caller)} {process_id}", None)
        seen = self._shown.get(_session_of(caller), Recent(_MOST_PROCESSES))
        known = seen.get(process_id, BEGINNING)
        if start.stdout > known.stdout or start.stderr > known.stderr:
            return
        # Each stream for itself: one of two pages may end further on in stdout, the other in stderr.
        end = Cursor(max(known.stdout, cursor.stdout), max(known.stderr, cursor.stderr))
        seen.note(process_id, end)
        self._shown.note(_session_of(caller), seen)

    def count_idle_wait(self, caller: Caller, process_id: ProcessId) -> int:
        """Return how many waits in a row a session has made for a process without any news, this one among
        them.
        """
        name = f"{_session_of(caller)} {process_id}"
        self._idle_waits.note(name, self._idle_waits.get(name, 0) + 1)
        return self._idle_waits[name]

    def forget_idle_waits(self, caller: Caller, process_id: ProcessId) -> None:
        """Begin to count anew: there was something to show."""
        self._idle_waits.pop(f"{_session_of(caller)} {process_id}", None)

    def give_up(self, process_id: ProcessId) -> None:
        """Remember that a host gave up the call which had started a process, and that the process goes on."""
        self._given_up.note(process_id, None)

    def take_given_up(self, process_id: ProcessId) -> bool:
        """Tell whether a host gave up on a process, once."""
        # The stored value is None, so that True stands for "not there".
        return self._given_up.pop(process_id, True) is None

    def note_patience(self, caller: Caller) -> None:
        """Remember that a client has waited longer than it would have without progress."""
        if caller.client:
            self._patient.note(_client_of(caller), None)

    def is_patient(self, caller: Caller) -> bool:
        """Tell whether a client has waited so long before."""
        name = _client_of(caller)
        if name in self._patient:
            self._patient.move_to_end(name)  # in use: others are forgotten before it
            return True
        return False


def _client_of(caller: Caller) -> str:
    return f"{caller.principal} {caller.client}"


def _session_of(caller: Caller) -> str:
    """Return what tells sessions apart.

    A client without an MCP session and without a relay is known by its name.
    """
    return f"{_client_of(caller)} {caller.project_root} {caller.host_session}"
