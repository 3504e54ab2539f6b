"""Arguments of the MCP tools as msgspec structs; everything in a call is checked here, once. Pure.

The options of a command are inherited from `outlive.operations.start`. Names are the wire's (promises S1.1,
S1.10, S4.2, S4.13); `timeout`, `grace` and `wait_s` are seconds, `max_output` is bytes. Tool schemas are made
from these structs. The documented tools ignore unknown members. Those of the lean tools are `lean`, those of
the terminal tools `operations.terminals`, for all frontends alike.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec
import orjson
from msgspec import Meta

from outlive.core.errors import SLUGS, InvalidRequest
from outlive.operations.requests import (
    WaitSeconds,
    WholeSeconds,
    WorkspaceName,
    convert_request,
)
from outlive.operations.start import RunOptions, check_words
from outlive.protocols.mcp.lenient import accept_arguments, refused_value, whole_numbers

_TreeTimeout = Annotated[
    WholeSeconds | None, Meta(description="Seconds after which the whole process tree is ended.")
]

# As the shells of agents' hosts cut by themselves: a model reads an answer again in every later turn.
SHOWN_BYTES = 30_000
_MaxOutput = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    Meta(
        description=f"Bytes shown of each stream, head and tail: {SHOWN_BYTES} unless you ask for more.",
    ),
]


class ToolOptions(RunOptions, kw_only=True, frozen=True):
    """What every tool of the documents takes that runs something."""

    wait_s: Annotated[
        WaitSeconds | None,
        Meta(description="Seconds this call waits before it answers that the command goes on."),
    ] = None
    background: Annotated[bool, Meta(description="Answer at once; the same as wait_s 0.")] = False
    max_output: _MaxOutput = None

    @property
    def is_patient(self) -> bool:
        """Whether the caller lets the server decide how long to wait for the end."""
        return self.wait_s is None and not self.background


class ExecuteArguments(ToolOptions, kw_only=True, frozen=True):
    """`command_execute`."""

    command: Annotated[str, Meta(description="The command line.")]
    timeout: _TreeTimeout = None
    shell: Annotated[bool, Meta(description="Run it in a shell, or as plain words.")] = True
    workspace: Annotated[
        WorkspaceName | None,
        Meta(description="A name: folder and exported variables go on from its last command that exited 0."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.command, None)
        super().__post_init__()


class ScriptArguments(ToolOptions, kw_only=True, frozen=True):
    """`command_execute_script`."""

    script_content: Annotated[str, Meta(description="The script's text, of any length.")]
    interpreter: Annotated[str, Meta(description="Program that runs it.")] = "/bin/bash"
    timeout: _TreeTimeout = None

    def __post_init__(self) -> None:
        """Refuse what no interpreter could run."""
        check_words(None, None, self.script_content)
        super().__post_init__()


class StatusArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`command_get_status`."""

    command_id: Annotated[str | int, Meta(description="Its id, its process's id, or a running one's pid.")]
    max_output: _MaxOutput = None


class HistoryArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`command_list_history`."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 10


class ShellArguments(ToolOptions, kw_only=True, frozen=True):
    """`execute_linux_shell_command` and `execute_background_linux_shell_command`."""

    cmd: Annotated[str, Meta(description="The command line.")]

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.cmd, None)
        super().__post_init__()


class TerminateArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`terminate_process`."""

    pid: Annotated[int, Meta(description="As list_processes shows it.")]


class NoArguments(msgspec.Struct, kw_only=True, frozen=True):
    """A tool without arguments."""


_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def read_arguments(
    raw: Mapping[str, object], shape: type[_Arguments], *, listed: Sequence[str] | None = None
) -> _Arguments:
    """Return checked arguments.

    Those of a tool for models, of which some are `listed`, as models send them (`lenient`).

    Raises:
        InvalidRequest: One is missing, unknown (where the shape forbids that), of the wrong type or
            impossible; the message names it, the hint lists the tool's arguments.
    """
    # Once at the edge: every later answer, log line and record can then be encoded.
    try:
        orjson.dumps(dict(raw))
    except TypeError:  # neither can be run or shown
        text = "An argument holds half of a surrogate pair, or a number of more than 64 bits."
        hint = "Send well-formed Unicode and numbers of 64 bits."
        raise InvalidRequest("invalid_params", text, hint=hint) from None
    # null is what leaving it out means, wherever it is not a value of its own inside an object.
    members = {name: value for name, value in raw.items() if value is not None}
    try:
        if listed is not None:
            members = accept_arguments(members, shape, listed=listed)
        return convert_request(whole_numbers(members), shape, is_text=listed is not None)
    except InvalidRequest as error:
        names = ", ".join(listed or [field.encode_name for field in msgspec.structs.fields(shape)])
        hint = f"The tool's arguments are: {names}." if names else "The tool takes no arguments."
        if listed is not None:
            error = refused_value(error, members)
            if error.hint != SLUGS[error.code][1]:
                hint = error.hint  # it says more than a list
        raise InvalidRequest(error.code, error.message, hint=hint, details=error.details) from None
