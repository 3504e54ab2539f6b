"""Arguments of the documents' tools as msgspec structs; unknown members are ignored, the rest is checked here, once.

Names are the wire's (promises S1.1, S1.10, S4.2); `timeout`, `grace` and `wait_s` are seconds.
"""

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
import orjson
from msgspec import Meta

from outlive.core.command import UMASK_PATTERN
from outlive.core.errors import InvalidRequest
from outlive.core.location import Isolation
from outlive.protocols.limits import LimitParams

_MAX_S = 10 * 365 * 86400  # ten years: beyond it timers overflow, and nobody means it
Seconds = Annotated[float, Meta(ge=0, le=_MAX_S)]
WaitSeconds = Annotated[float, Meta(ge=0, le=3600)]
WorkspaceName = Annotated[str, Meta(pattern=r"^[\w.-]{1,100}\Z")]  # it is shown in a line of words
GroupLimit = Annotated[int, Meta(ge=1, le=1_000_000)]
Umask = Annotated[str, Meta(pattern=UMASK_PATTERN)]
_WholeSeconds = Annotated[int, Meta(ge=1, le=_MAX_S)]


class _Options(msgspec.Struct, kw_only=True, frozen=True):
    """What every tool takes that runs something."""

    cwd: str | None = None
    env: dict[str, str | None] = {}
    env_secrets: dict[str, str] = {}
    profile: str | None = None
    limits: LimitParams | None = None
    backend: str | None = None
    image: str | None = None
    isolation: Isolation | None = None
    umask: Umask | None = None
    wait_s: WaitSeconds | None = None
    background: bool = False
    grace: Seconds | None = None
    tags: dict[str, str] = {}
    group: str | None = None
    group_limit: GroupLimit | None = None

    @property
    def is_patient(self) -> bool:
        """Whether the caller leaves it to the server how long to wait for the end."""
        return self.wait_s is None and not self.background


class ExecuteArguments(_Options, kw_only=True, frozen=True):
    """`command_execute`."""

    command: str
    timeout: _WholeSeconds | None = None
    shell: bool = True
    workspace: WorkspaceName | None = None


class ScriptArguments(_Options, kw_only=True, frozen=True):
    """`command_execute_script`."""

    script_content: str
    interpreter: str = "/bin/bash"
    timeout: _WholeSeconds | None = None


class StatusArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`command_get_status`."""

    command_id: str


class HistoryArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`command_list_history`."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 10


class ShellArguments(_Options, kw_only=True, frozen=True):
    """`execute_linux_shell_command` and `execute_background_linux_shell_command`."""

    cmd: str
    timeout: Seconds | None = None


class TerminateArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`terminate_process`."""

    pid: int


class NoArguments(msgspec.Struct, kw_only=True, frozen=True):
    """A tool without arguments."""


_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def read_arguments(raw: Mapping[str, object], shape: type[_Arguments]) -> _Arguments:
    """Return checked arguments.

    Raises:
        InvalidRequest: One is missing, unknown (where the shape forbids that), of the wrong type or impossible; the
            message names it, the hint lists the tool's arguments.
    """
    try:
        orjson.dumps(dict(raw))
    except TypeError as error:  # half of a surrogate pair, a number of 30 digits: neither run nor shown
        hint = "Send well-formed Unicode and numbers of 64 bits."
        raise InvalidRequest("invalid_params", f"An argument cannot be taken: {error}", hint=hint) from None
    try:
        return msgspec.convert(dict(raw), shape)
    except (msgspec.ValidationError, ValueError) as error:
        names = ", ".join(field.encode_name for field in msgspec.structs.fields(shape))
        hint = f"The tool's arguments are: {names}." if names else "The tool takes no arguments."
        raise InvalidRequest("invalid_params", _sentence(str(error)), hint=hint) from None


def _sentence(message: str) -> str:
    """Turn "Expected `str`, got `int` - at `$.command`" into "command: expected str, got int"."""
    text, _, place = message.partition(" - at ")
    text = text.replace("`", "")
    name = place.strip("`").removeprefix("$").removeprefix(".")
    return f"{name}: {text[:1].lower()}{text[1:]}" if name else text
