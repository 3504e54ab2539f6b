"""A start that repeats a process, from what its folder says of its own start: `repetition_of`. Pure.

Not repeated is a key: a start with it would answer with the process that has it, and run nothing. Nor is what
makes a process a service's, its tag and its name: what is run beside a service is none, and must not have the
name that the service needs. The files are read by `store.folder.read_start`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from outlive.core.command import Command, as_callers_write
from outlive.core.errors import InvalidRequest
from outlive.core.identity import PROCESS_VARIABLE
from outlive.core.layout import VARIABLE
from outlive.core.location import ANY
from outlive.core.process import SERVICE_TAG, SERVICES_DOOR
from outlive.core.spec import CALLER_ENVIRONMENT, REPEATED, Spec
from outlive.core.values import dataclass
from outlive.operations.requests import convert_request
from outlive.operations.start import StartOptions

REPEATS = "repeats"  # the tag of the new process, with the id of the one that it repeats
_TOKEN_VARIABLE = "OUTLIVE_TOKEN"  # noqa: S105 -- the variable's name (`discovery.own_kind`, which stands above)
# The server sets these anew for each process; a token of its own is the old process's.
OF_THE_PROCESS = frozenset({PROCESS_VARIABLE, VARIABLE, _TOKEN_VARIABLE})
# What MCP's tools put before a line, a file of this program's, and the user's own in whose place it stands.
_PRELUDE, _USERS_PRELUDE = "BASH_ENV", "OUTLIVE_BASH_ENV"


class Rerun(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A command again, as it was started; it runs beside what lives."""

    env_secrets: Annotated[
        dict[str, str],
        Meta(description="The values of its secret variables, which were stored nowhere."),
    ] = {}

    def __repr__(self) -> str:
        """Return the kind of request alone: the values stand in no text."""
        return "<Rerun>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedProcess:
    """What is known of a process that is repeated, beside its spec; `location` is None on the server's own
    machine.
    """

    process_id: str
    command: str
    shell: str | None
    redacted: int
    timeout_s: float | None
    grace_s: float
    profile: str
    tags: Mapping[str, str]
    group: str | None
    project: str | None
    name: str | None
    location: Mapping[str, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """A start that repeats another one.

    `options` have the names of the Python client's. `secrets` are the variables whose values were stored
    nowhere. `lacks_environment`: nor was the environment of the program that asked for the first start.
    """

    command: str | tuple[str, ...]
    options: dict[str, Any]
    secrets: tuple[str, ...]
    lacks_environment: bool

    def give(self, secrets: Mapping[str, str]) -> None:
        """Take the values of its secrets over into its options."""
        self.options["env_secrets"] = {name: secrets[name] for name in self.secrets}

    def to_command(self, asked: Rerun) -> Command:
        """Return the command in the form that the engine takes, with the values of its secrets.

        Raises:
            InvalidRequest: Some of them were not given.
        """
        missing = [name for name in self.secrets if name not in asked.env_secrets]
        if missing:
            text = f"The values of these variables were stored nowhere: {', '.join(missing)}."
            hint = "Give their values in env_secrets, or run `outlive rerun` with `--secret NAME`."
            raise InvalidRequest("invalid_params", text, hint=hint, details={"missing": missing})
        self.give(asked.env_secrets)
        members = as_callers_write(self.options)
        words = self.command
        return convert_request(members, StartOptions).make_command(
            line=words if isinstance(words, str) else None,
            argv=None if isinstance(words, str) else words,
            script=members.get("script"),
            title=members.get("title"),
            inherits_env=members["inherit_env"],
            detached=True,
        )


def repetition_of(
    spec: Spec, known: RepeatedProcess, *, script: str | None, script_path: str, package: str
) -> Repetition:
    """Return the start that repeats a process.

    Args:
        spec: What the keeper was asked to run, and what else was asked for.
        known: What is known of the process: name, labels, sandbox.
        script: The content of its script file, if it has one.
        script_path: Where that lies.
        package: The folder of this program's own files: a prelude from there is not the command's.

    Raises:
        InvalidRequest: It is the shell of a terminal.
    """
    if spec.meta.get("terminal") is not None:
        hint = "`outlive terminal new` opens one."
        raise InvalidRequest("invalid_params", "It is the shell of a terminal.", hint=hint)
    options: dict[str, Any] = {
        "cwd": spec.cwd,
        "env": _environment(spec.env, package),
        "inherit_env": known.location is None,  # elsewhere the rest is the other machine's, or the image's
        "stdin": "pipe" if spec.stdin == "pipe" else "none",
        "pty": spec.stdio == "pty",
        "merge": spec.stdio == "merge",
        "rows": spec.rows,
        "cols": spec.cols,
        "timeout_s": known.timeout_s,
        "grace_s": known.grace_s,
        "after_exit": spec.after_exit,
        "profile": known.profile,
        "tags": {**known.tags, REPEATS: known.process_id},
        "group": known.group,
        "project": known.project,
        "name": known.name,
        "umask": spec.umask,
    }
    if spec.meta.get("door") == SERVICES_DOOR:
        options["name"] = None
        options["tags"] = {name: value for name, value in options["tags"].items() if name != SERVICE_TAG}
    if isinstance(asked := spec.meta.get(REPEATED), dict):  # what an earlier start has asked for
        options |= asked
    if spec.on_limit != "block":  # of a foreground, whose reader is not there this time
        options |= {"output_limit": spec.output_limit, "on_limit": spec.on_limit}
    if not known.redacted:
        options["title"] = known.command
    if isinstance(limits := spec.meta.get("limits"), dict):
        options["limits"] = limits
    if known.location is not None:
        options |= {"backend": known.location["backend"], "image": known.location.get("image")}
    if "needs" in options:  # it is placed anew
        options["backend"] = ANY
    command: str | tuple[str, ...] = spec.argv
    if known.shell is not None:
        # A long line lies in the script file, and what the shell was given only reads that.
        command = spec.argv[-1] if script is None else script
    elif script is not None and spec.argv[-1:] == (script_path,):
        command, options["script"] = spec.argv[:-1], script
    # The token of a grant is the old process's; the server makes another one.
    not_asked = {CALLER_ENVIRONMENT, *((_TOKEN_VARIABLE,) if "grant" in spec.meta else ())}
    return Repetition(
        command=command,
        options={name: value for name, value in options.items() if value is not None},
        secrets=tuple(name for name in spec.secrets if name not in not_asked),
        lacks_environment=CALLER_ENVIRONMENT in spec.secrets,
    )


def _environment(stored: Mapping[str, str], package: str) -> dict[str, str | None]:
    env: dict[str, str | None] = {name: value for name, value in stored.items() if name not in OF_THE_PROCESS}
    users = env.pop(_USERS_PRELUDE, None)
    if users is not None:
        env[_PRELUDE] = users
    elif (env.get(_PRELUDE) or "").startswith(package):
        del env[_PRELUDE]
    return env
