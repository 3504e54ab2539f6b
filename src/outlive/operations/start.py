"""Starting a command: what every frontend takes, and the one place that makes the engine's `Command` of it.

Pure.

`RunOptions` are the options that every frontend takes, `StartOptions` those of the frontends that start
without waiting for the end. Each knows how it becomes members of a `Command`. An option that is added is
named here and in `core.command`; frontends, schemas and reference pages take it from here.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from outlive.core.command import (
    NO_LIMITS,
    NOTIFY_EVENTS,
    AfterExit,
    Command,
    Limits,
    NotifyEvent,
    OnLimit,
    Stdin,
    Stdio,
    parse_umask,
)
from outlive.core.location import Isolation
from outlive.core.needs import Amounts, Needs
from outlive.operations.requests import (
    Amount,
    BackendName,
    Bytes,
    Cells,
    Count,
    Cpus,
    GrantText,
    Group,
    Key,
    LimitCount,
    ProcessName,
    ProcessWord,
    ProfileName,
    ProjectFolder,
    Seconds,
    Tags,
    Text,
    Timeout,
    Umask,
)

# Of use only where the operator has set up containers, or anything else than this machine.
CONTAINER_OPTIONS = ("image", "isolation")
PLACE_OPTION = "backend"


class LimitsRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Bounds of what it may take, below the server's own."""

    # An unknown name is refused everywhere: a bound that was misspelt would hold nothing.
    cpu: Annotated[LimitCount | None, Meta(description="Seconds of processor time of each process.")] = None
    cpus: Annotated[Cpus | None, Meta(description="Processors that the whole tree may keep busy.")] = None
    memory: Annotated[Bytes | None, Meta(description="Bytes.")] = None
    files: Annotated[LimitCount | None, Meta(description="Open files of each process.")] = None
    processes: Annotated[LimitCount | None, Meta(description="Processes, with itself.")] = None

    def to_limits(self) -> Limits:
        """Return them as the engine takes them."""
        return Limits.named(msgspec.structs.asdict(self))


class NeedsRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What the machine that runs it must have free.

    One processor where neither cpu, memory nor gpu is named.
    """

    cpu: Annotated[Amount | None, Meta(description="Processors, or parts of one: 0.5.")] = None
    memory: Annotated[Bytes | None, Meta(description="Bytes.")] = None
    gpu: Annotated[Amount | None, Meta(description="GPUs, or parts of one.")] = None
    labels: Annotated[Tags, Meta(description="Labels that the machine must have.")] = {}
    same_node_as: Annotated[
        ProcessWord | None, Meta(description="The process beside which it runs, on the same machine.")
    ] = None
    spread: Annotated[bool, Meta(description="Machines that run fewer commands of its group come first.")] = (
        False
    )
    wait: Annotated[
        bool, Meta(description="Where no machine has enough free: wait for a place; false refuses.")
    ] = True

    def to_needs(self) -> Needs:
        """Return them as the engine takes them."""
        says_nothing = self.cpu is None and self.memory is None and self.gpu is None
        amounts = Amounts.of(
            cpu=1 if says_nothing else self.cpu or 0, memory_bytes=self.memory or 0, gpu=self.gpu or 0
        )
        return Needs(
            amounts=amounts,
            labels=self.labels,
            same_node_as=self.same_node_as,
            is_spread=self.spread,
            is_patient=self.wait,
        )


class RunOptions(msgspec.Struct, kw_only=True, frozen=True):
    """What every frontend takes that runs a command; `timeout` and `grace` are seconds."""

    cwd: Annotated[str | None, Meta(description="The working folder; null is the server's default.")] = None
    env: Annotated[dict[str, str | None], Meta(description="Variables to add; null removes one.")] = {}
    env_secrets: Annotated[
        dict[str, str],
        Meta(description="Secret variables: given to the command, never stored or shown; their names are."),
    ] = {}
    profile: Annotated[
        ProfileName | None,
        Meta(description="The sandbox, weakest first: open, guarded, workspace, offline, sealed."),
    ] = None
    limits: Annotated[LimitsRequest | None, Meta(description="Bounds below the server's own.")] = None
    backend: Annotated[
        BackendName | None,
        Meta(
            description="Where it runs: local, docker, a node's name, or any: the machine with room for it."
        ),
    ] = None
    needs: Annotated[
        NeedsRequest | None,
        Meta(description="What the machine must have; it waits for one that has it free."),
    ] = None
    image: Annotated[Text | None, Meta(description="The image of its container, where it gets one.")] = None
    isolation: Annotated[
        Isolation | None,
        Meta(description="session: a container that others share; strict: one of its own."),
    ] = None
    umask: Annotated[Umask | None, Meta(description="Permissions that its new files do not get, as 022.")] = (
        None
    )
    timeout: Annotated[Timeout | None, Meta(description="Seconds until the whole tree is ended.")] = None
    grace: Annotated[Seconds | None, Meta(description="Seconds between TERM and KILL when it is ended.")] = (
        None
    )
    tags: Annotated[Tags, Meta(description="Names and values that lists can be filtered by.")] = {}
    group: Annotated[Group | None, Meta(description="A name that several commands share.")] = None
    group_limit: Annotated[
        Count | None, Meta(description="How many of the group run at once; one more waits for its turn.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse what no process can be given, whatever the command is."""
        if self.cwd or self.env:
            check_variables(self.cwd, self.env)

    def __repr__(self) -> str:
        """Return the kind of request alone: the values of `env_secrets` stand in no text."""
        return f"<{type(self).__name__}>"

    def make_command(
        self,
        *,
        default_timeout_s: float | None = None,
        default_grace_s: float | None = None,
        **members: Any,  # noqa: ANN401 -- members of Command
    ) -> Command:
        """Return the command as the engine takes it.

        Args:
            default_timeout_s: Of a caller that names no timeout.
            default_grace_s: Of a caller that names no grace.
            members: What only this frontend knows of a `Command`: the words, and its owner.
        """
        found = self.command_members() | members
        if self.timeout is None:
            found["timeout_s"] = default_timeout_s
        if self.grace is None:
            found["grace_s"] = default_grace_s
        return Command(**found)

    def command_members(self) -> dict[str, Any]:
        """Return these options as members of a `Command`."""
        return {
            "cwd": self.cwd,
            "env": self.env,
            "env_secrets": self.env_secrets,
            "profile": self.profile,
            "limits": NO_LIMITS if self.limits is None else self.limits.to_limits(),
            "backend": self.backend,
            "needs": None if self.needs is None else self.needs.to_needs(),
            "image": self.image,
            "isolation": self.isolation,
            "umask": None if self.umask is None else parse_umask(self.umask),
            "timeout_s": self.timeout,
            "grace_s": self.grace,
            "tags": self.tags,
            "group": self.group,
            "group_limit": self.group_limit,
        }


class StartOptions(RunOptions, kw_only=True, frozen=True):
    """What a start takes besides that where the caller comes back for output, input and the end."""

    stdin: Annotated[Stdin, Meta(description="pipe: its input can be written to.")] = "none"
    pty: Annotated[bool, Meta(description="Run it in a terminal of rows by cols.")] = False
    rows: Cells = 24
    cols: Cells = 80
    merge: Annotated[bool, Meta(description="One pipe for stdout and stderr: their exact order is kept.")] = (
        False
    )
    output_limit: Annotated[Bytes | None, Meta(description="Bytes of output that are kept.")] = None
    on_limit: Annotated[OnLimit, Meta(description="What happens beyond output_limit.")] = "truncate"
    after_exit: Annotated[
        AfterExit, Meta(description="What happens to processes that it leaves running.")
    ] = "keep"
    project: Annotated[
        ProjectFolder | None,
        Meta(description="The folder that it belongs to: short ids and keys are unique there."),
    ] = None
    key: Annotated[
        Key | None,
        Meta(
            description=(
                "A name in the project: a start with the key of an earlier one answers for that, and "
                "runs nothing."
            )
        ),
    ] = None
    name: Annotated[
        ProcessName | None,
        Meta(
            description=(
                "What it is called: accepted wherever an id is. Only one that lives in the project has it."
            )
        ),
    ] = None
    replace: Annotated[
        bool, Meta(description="With name: end the one that lives and has it, with its grace, then start.")
    ] = False
    grant: Annotated[
        GrantText | None,
        Meta(
            description=(
                "What it may do here itself, by a token in its OUTLIVE_TOKEN while it runs: run, read:1h."
            )
        ),
    ] = None

    notify: Annotated[
        bool | tuple[NotifyEvent, ...],
        Meta(
            description=(
                "Notify a person, on the operator's channels, of its end, failure, question or "
                "silence; true: of all."
            )
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse two ways to take the output, too."""
        check_streams(pty=self.pty, merge=self.merge)
        check_replaced(self.name, replace=self.replace)
        super().__post_init__()

    @property
    def stdio(self) -> Stdio:
        """How its output is taken."""
        return "pty" if self.pty else "merge" if self.merge else "pipes"

    def command_members(self) -> dict[str, Any]:
        """Return these options as members of a `Command`."""
        return super().command_members() | {
            "stdin": self.stdin,
            "stdio": self.stdio,
            "rows": self.rows,
            "cols": self.cols,
            "output_limit": self.output_limit,
            "on_limit": self.on_limit,
            "after_exit": self.after_exit,
            "project": self.project,
            "key": self.key,
            "name": self.name,
            "replaces": self.replace,
            "grant": self.grant,
            "notify": NOTIFY_EVENTS if self.notify is True else tuple(self.notify or ()),
        }


def check_streams(*, pty: bool, merge: bool) -> None:
    """Let a wish for the streams pass that can be met.

    Raises:
        ValueError: It contradicts itself.
    """
    if pty and merge:
        raise ValueError("A terminal has one stream already: pass pty or merge, not both")


def check_replaced(name: str | None, *, replace: bool) -> None:
    """Let a wish to replace something pass that says what.

    Raises:
        ValueError: There is no name.
    """
    if replace and name is None:
        raise ValueError("replace needs the name of what is replaced")


def check_variables(cwd: str | None, env: Mapping[str, str | None]) -> None:
    """Let a folder and variables pass that a process can be given.

    Those of `env_secrets` are the engine's to check.

    Raises:
        ValueError: A variable's name is none, or a text holds a NUL.
    """
    if any(not name or "=" in name for name in env):
        raise ValueError("A name in env is not empty and holds no =")
    _check_no_nul(cwd or "", *_texts(env))


def check_words(command: str | None, argv: tuple[str, ...] | None, script: str | None = None) -> None:
    """Let words pass that a shell or the kernel can run; an empty script is one (promise S1.4).

    Raises:
        ValueError: They are empty, or hold a NUL.
    """
    if command is not None and not command.strip():
        raise ValueError("The command is empty")
    if argv is not None and not (argv and argv[0]):
        raise ValueError("argv needs a program as its first word")
    _check_no_nul(command or "", *(argv or ()), script or "")


def check_one_way(command: str | None, argv: tuple[str, ...] | None, script: str | None) -> None:
    """Let a request pass that says in exactly one way what to run, and can be run.

    Raises:
        ValueError: It says nothing, or two things, or as `check_words`.
    """
    if sum(one is not None for one in (command, argv, script)) != 1:
        raise ValueError("Pass exactly one of command, argv and script")
    check_words(command, argv, script)


def _texts(variables: Mapping[str, str | None]) -> Iterable[str]:
    return (*variables, *filter(None, variables.values())) if variables else ()


def _check_no_nul(*texts: str) -> None:
    # One search in one text: a start of 5,000 words is no reason for 5,000 calls.
    if "\0" in "".join(texts):
        raise ValueError("NUL characters cannot be passed to a process")
