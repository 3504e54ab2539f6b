"""What callers send to /v1 and to the documented paths, checked once: unknown members of /v1 bodies are refused.

`timeout` and `grace` are seconds, `output_limit` is bytes. Docstrings and descriptions of the models are part of the OpenAPI
document, so they are for users.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from outlive.core.command import UMASK_PATTERN, Command, Stdio, parse_umask
from outlive.core.errors import InvalidRequest
from outlive.core.location import Isolation
from outlive.core.sandbox import MIN_CPUS, NO_LIMITS, Limits
from outlive.core.tags import MAX_TAG_NAME, MAX_TAG_VALUE, MAX_TAGS

_MAX_S = 10 * 365 * 86400  # ten years: beyond it timers overflow, and such a time is a mistake
_MAX_CELLS = 65535  # struct winsize holds 16 bits (ioctl_tty(2))

_Seconds = Annotated[float, Field(ge=0, le=_MAX_S, allow_inf_nan=False)]
_Timeout = Annotated[float, Field(gt=0, le=_MAX_S, allow_inf_nan=False)]
_Cells = Annotated[int, Field(ge=1, le=_MAX_CELLS)]
_TagName = Annotated[str, Field(min_length=1, max_length=MAX_TAG_NAME)]
_TagValue = Annotated[str, Field(max_length=MAX_TAG_VALUE)]
_Tags = Annotated[dict[_TagName, _TagValue], Field(max_length=MAX_TAGS)]
_ProfileName = Literal["open", "guarded", "workspace", "offline", "sealed"]
_Group = Annotated[str, Field(min_length=1, max_length=128)]

# The three ways to say what runs.
_TEXT: dict[str, Any] = {"type": "string"}
_WAYS: dict[str, dict[str, Any]] = {
    "command": _TEXT,
    "argv": {"type": "array", "items": _TEXT},
    "script": _TEXT,
}


def _has(name: str) -> dict[str, Any]:
    """Return the schema of an object that holds `name`; null counts as absent."""
    return {"required": [name], "properties": {name: _WAYS[name]}}


def _has_only(name: str) -> dict[str, Any]:
    absent = {other: {"type": "null"} for other in _WAYS if other != name}
    return {"required": [name], "properties": {name: _WAYS[name], **absent}}


# The schema says what `to_command` checks: exactly one of the three is present. Not as `oneOf`: generators of clients make three
# classes of that, of which none has the other members. `if` binds validators, and adds no type.
_EXACTLY_ONE: dict[str, Any] = {
    "if": _has("command"),
    "then": _has_only("command"),
    "else": {"if": _has("argv"), "then": _has_only("argv"), "else": _has_only("script")},
}
_START_SCHEMA: dict[str, Any] = {
    **_EXACTLY_ONE,
    "examples": [
        {"command": "make -j8", "cwd": "/srv", "timeout": 3600, "tags": {"job": "build"}},
        {"argv": ["python3", "-u", "train.py"], "group": "night"},
        {"command": "cat", "stdin": "pipe"},
    ],
}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class LimitsRequest(_Strict):
    """Bounds of what it may take, below the server's own."""

    cpu: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Seconds of processor time of each process."
    )
    cpus: Annotated[float, Field(ge=MIN_CPUS, le=2**20)] | None = Field(
        None, description="Processors that it may keep busy with all that it starts."
    )
    memory: Annotated[int, Field(ge=1, le=2**62)] | None = Field(None, description="Bytes.")
    files: Annotated[int, Field(ge=1, le=2**31)] | None = Field(
        None, description="Open files of each process."
    )
    processes: Annotated[int, Field(ge=1, le=2**31)] | None = None

    def to_limits(self) -> Limits:
        """Return them as the engine takes them."""
        return Limits(
            cpu_s=self.cpu,
            cpus=self.cpus,
            memory_bytes=self.memory,
            files=self.files,
            processes=self.processes,
        )


class StartRequest(_Strict):
    """A command and how to run it: exactly one of `command`, `argv` and `script`."""

    model_config = ConfigDict(json_schema_extra=_START_SCHEMA)

    command: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="A shell line, of any length."
    )
    argv: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="A program and its words; no shell is between."
    )
    script: str | None = Field(None, description="The content of a file that `interpreter` runs.")
    interpreter: Annotated[str, Field(min_length=1)] = Field("/bin/bash", description="What runs `script`.")
    cwd: str | None = Field(None, description="The working folder.")
    env: dict[str, str | None] = Field(
        default_factory=dict, description="Added to the server's clean environment; null removes a name."
    )
    env_secrets: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Variables whose values are given to it and written nowhere; only their names are kept.",
    )
    profile: _ProfileName | None = Field(
        None, description="The sandbox; the server's default, or a stronger one."
    )
    limits: LimitsRequest | None = None
    backend: Annotated[str, Field(min_length=1, max_length=63)] | None = Field(
        None,
        description="Where it runs: `local`, `docker`, or the name of a node; the server's default else.",
    )
    image: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="The image of its container, where it gets one."
    )
    isolation: Isolation | None = Field(
        None, description="`session`: a container that others share; `strict`: one of its own."
    )
    grant: Annotated[str, Field(max_length=40)] | None = Field(
        None,
        description="What it may do here itself, by a token in its OUTLIVE_TOKEN while it runs: `run`, `read:1h`.",
    )
    umask: Annotated[str, Field(pattern=UMASK_PATTERN)] | None = Field(
        None,
        description="Permissions that its new files do not get, as `022`; those of the server's start else.",
    )
    stdin: Literal["none", "pipe"] = Field("none", description="`pipe` lets you write to its input.")
    pty: bool = Field(default=False, description="Run it in a terminal of `rows` by `cols`.")
    rows: _Cells = 24
    cols: _Cells = 80
    merge: bool = Field(default=False, description="One pipe for stdout and stderr keeps their exact order.")
    timeout: _Timeout | None = Field(None, description="After this many seconds the whole tree is ended.")
    grace: _Seconds | None = Field(None, description="Seconds between TERM and KILL when it is ended.")
    output_limit: Annotated[int, Field(ge=1, le=2**62)] | None = Field(
        None, description="Bytes of output that are kept."
    )
    on_limit: Literal["truncate", "kill"] = Field(
        "truncate", description="What happens beyond `output_limit`."
    )
    after_exit: Literal["keep", "kill", "wait"] = Field(
        "keep", description="What happens to processes that it leaves running."
    )
    tags: _Tags = Field(
        default_factory=dict, description="Kept with the process; lists can be filtered by them."
    )
    group: _Group | None = Field(None, description="Lists can be filtered by it.")
    group_limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="How many of the group run at once from now on; one more is queued until its turn comes.",
    )

    def to_command(self) -> Command:
        """Return the command in the form that the engine takes; it belongs to the principal, not to a connection.

        Raises:
            InvalidRequest: Nothing is to run, or more than one thing.
        """
        if sum(one is not None for one in (self.command, self.argv, self.script)) != 1:
            raise InvalidRequest("invalid_params", "Pass exactly one of command, argv and script.")
        if self.pty and self.merge:
            text = "A terminal has one stream already: pass pty or merge, not both."
            raise InvalidRequest("invalid_params", text)
        # One word for the engine instead of two switches, of which one combination makes no sense.
        stdio: Stdio = "pty" if self.pty else "merge" if self.merge else "pipes"
        words = [self.interpreter] if self.script is not None else self.argv
        return Command(
            line=self.command,
            argv=None if words is None else tuple(words),
            script=self.script,
            cwd=self.cwd,
            env=self.env,
            stdio=stdio,
            stdin=self.stdin,
            rows=self.rows,
            cols=self.cols,
            timeout_s=self.timeout,
            grace_s=self.grace,
            output_limit=self.output_limit,
            on_limit=self.on_limit,
            after_exit=self.after_exit,
            detached=True,
            tags=self.tags,
            group=self.group,
            group_limit=self.group_limit,
            env_secrets=self.env_secrets,
            profile=self.profile,
            limits=NO_LIMITS if self.limits is None else self.limits.to_limits(),
            backend=self.backend,
            image=self.image,
            grant=self.grant,
            isolation=self.isolation,
            umask=parse_umask(self.umask),
        )


class Changes(_Strict):
    """What to change of a process (as in RFC 7396): absent members stay, null removes."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"tags": {"job": "release", "draft": None}}]})

    tags: Annotated[dict[_TagName, _TagValue | None], Field(max_length=MAX_TAGS)] | None = Field(
        None, description="Tags to set; null removes one, and null for all of them removes all."
    )
    group: _Group | None = None


class ControlRequest(_Strict):
    """What to do with the whole tree."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"action": "cancel", "grace": 5}]})

    action: Literal["pause", "resume", "cancel"]
    grace: _Seconds | None = Field(None, description="For cancel: seconds between TERM and KILL.")


class SignalRequest(_Strict):
    """A signal by number or name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"signal": "INT"}]})

    signal: int | str
    whole_tree: bool = Field(default=False, description="Everything below the main process gets it, too.")


class Approving(_Strict):
    """What is approved."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"digest": "0f" * 32}]})

    digest: Annotated[
        str,
        Field(pattern="^[0-9a-f]{64}$", description="As `/v1/approvals` has shown it: all that would run."),
    ]


class Denial(_Strict):
    """Why a start is not approved."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "Not on a Friday."}]})

    reason: Annotated[str, Field(max_length=500, description="One sentence for whoever asked.")] = ""


class Resize(_Strict):
    """A terminal's window size."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rows": 50, "cols": 132}]})

    rows: _Cells
    cols: _Cells


class SyncRequest(BaseModel):
    """A command for /api/sync/execute/; other members are ignored."""

    model_config = ConfigDict(
        strict=True, frozen=True, json_schema_extra={"examples": [{"command": "uname -a"}]}
    )

    command: Annotated[str, Field(min_length=1)]
    timeout: _Timeout | None = Field(None, description="After this many seconds the whole tree is ended.")


class BackgroundRequest(SyncRequest):
    """A command for /api/async/execute/background/; other members are ignored."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"command": "sleep 60", "timeout": 120}]})
