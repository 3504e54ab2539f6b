"""Bodies and answers of /v1/terminals as models, for the OpenAPI document; `protocols.terminal` defines what they mean."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from outlive.core.errors import InvalidRequest
from outlive.core.terminal import Form, Target, TerminalState, Waiting
from outlive.protocols.rest.answers import REDACTED

_Cells = Annotated[int, Field(ge=1, le=65535)]  # struct winsize holds 16 bits (ioctl_tty(2))
_Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
_ProfileName = Literal["open", "guarded", "workspace", "offline", "sealed"]
_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class _StrictTerminalRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class NewTerminalRequest(_StrictTerminalRequest):
    """A terminal that is wanted; everything may be left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"terminal_name": "build", "cwd": "/srv"}]})

    terminal_name: _Name | None = Field(
        None, description='What people call it; "MCP Terminal N" if left out.'
    )
    target: Target = Field(
        "engine", description="The engine, whose terminals are durable, or a connected VS Code."
    )
    shell: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="A program; the user's shell if left out."
    )
    cwd: str | None = None
    env: dict[str, str] = Field({}, description="Variables that are added.")
    rows: _Cells = 24
    cols: _Cells = 80
    profile: _ProfileName | None = None
    backend: str | None = Field(None, description="Where: local, docker, or the name of a node.")
    image: str | None = Field(None, description="The image of its container.")
    tags: dict[str, str] = {}


class ExecuteRequest(_StrictTerminalRequest):
    """A command of any number of lines, as it would be typed at the prompt."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"command": "make test", "wait_s": 60}]})

    command: Annotated[str, Field(min_length=1)]
    wait_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] | None = Field(
        None, description="Seconds to wait for its end; it goes on when they are over."
    )


class InputRequest(_StrictTerminalRequest):
    """What is typed: a text as it is, then keys by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": "y", "keys": ["enter"]}]})

    text: str | None = None
    keys: list[str] | None = Field(None, description="enter, tab, esc, up, down, ctrl-c and so on.")


class _TerminalAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TerminalView(_TerminalAnswer):
    """One terminal."""

    terminal_id: str
    terminal_name: str
    target: Target
    state: TerminalState
    process_id: str | None = Field(description="Its shell's process; null for a terminal that is not ours.")
    cwd: str | None


class TerminalPage(_TerminalAnswer):
    """The terminals that are open."""

    terminals: list[TerminalView]


class ExecutedView(_TerminalAnswer):
    """What a command gave. While it runs `is_complete` is false and `exit_code` null."""

    terminal_id: str
    output: str = Field(description="What it printed, without prompt, echo and escape sequences.")
    exit_code: int | None
    cursor: str | None = Field(description="Where to read on.")
    is_complete: bool
    waiting: Waiting
    is_closed: bool = Field(description="The command has ended the shell.")
    redacted: int = Field(default=0, description=REDACTED)


class TerminalTextView(_TerminalAnswer):
    """A piece of a terminal's output."""

    terminal_id: str
    text: str
    form: Form
    cursor: str = Field(description="Where to read on.")
    state: TerminalState
    waiting: Waiting
    exit_code: int | None = Field(description="Of the command that ended last; null while one runs.")
    has_more: bool
    has_gap: bool = Field(description="Output before it is not kept any more.")
    redacted: int = Field(default=0, description=REDACTED)


class TypedView(_TerminalAnswer):
    """What was typed."""

    terminal_id: str
    written: int = Field(description="Bytes.")


class ResizedTerminal(_TerminalAnswer):
    """A terminal's size."""

    terminal_id: str
    rows: int
    cols: int


class ClosedTerminal(_TerminalAnswer):
    """A terminal that is closed now."""

    terminal_id: str
    closed: bool = Field(description="True.")


def asked(shape: type[_Shape], **members: Any) -> _Shape:  # noqa: ANN401 -- msgspec checks them
    """Return a request in the form that all frontends share.

    Raises:
        InvalidRequest: Members do not fit together, which no schema of a single one can express.
    """
    # The structs of `protocols.terminal` check what the models cannot: members that exclude or need each other.
    try:
        return msgspec.convert(members, shape)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidRequest("invalid_params", f"{error}".replace("`", "")) from None
