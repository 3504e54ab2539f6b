"""Answers of /v1/terminals as models, for the OpenAPI document. What they mean, `protocols.terminal` says."""

from pydantic import BaseModel, ConfigDict, Field

from outlive.core.terminal import Form, Target, TerminalState, Waiting
from outlive.protocols.rest.answers import REDACTED


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
