"""Commands that run elsewhere than on this machine itself: in a container (`ContainerPlaces`), or on a node,
which resolves what the caller said.

Nothing of this machine is looked up for a command on a node, and nothing of its environment goes over. What
the caller said travels in the spec's `meta` under `ASKED`: program, folder, environment, sandbox and limits
are the node's own.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from outlive.core.command import Command, Profile, Sandbox
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.file_words import OtherRoot
from outlive.core.identity import ProcessId
from outlive.core.location import Kind, Location
from outlive.core.process import Owner, ProcessRecord
from outlive.core.spec import Spec
from outlive.core.values import asdict
from outlive.engine.commands.resolver import Resolved, as_bytes, check_command

# Members of `Spec` that `execute` takes under the same names: always, and only where they are set.
_AS_THEY_ARE = (
    "stdin",
    "rows",
    "cols",
    "timeout_s",
    "grace_s",
    "output_limit",
    "on_limit",
    "after_exit",
)
_IF_SET = ("umask", "nice")


class ContainerPlaces(Protocol):
    """The containers of this machine in which commands run (`extensions.docker`)."""

    async def prepare(self, command: Command, owner: Owner, process_id: ProcessId) -> Resolved:
        """Return what will run, and in which container.

        Raises:
            InvalidRequest: The words are none, no image is known, a limit cannot be kept or is higher than
            the operator's.
            CommandRefused: Lists are in force, and the image is not the operator's.
        """

    def open_root(self, container: str) -> OtherRoot:
        """Open the root folder of a running container. Blocks."""


class RemoteFiles(Protocol):
    """The files of nodes (`extensions.fleet`)."""

    async def ask_files(
        self, name: str, method: str, params: Mapping[str, Any], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        """Return a node's answer to a method about files (`operations.files`).

        The bytes of a piece are its member `data`.

        Raises:
            OutliveError: What the node says, or that it does not answer.
        """


ASKED = "asked"  # the member of a spec's `meta`


def resolve_elsewhere(
    command: Command, profile: Profile, inside: ProcessRecord | None, *, kind: Kind, backend: str
) -> Resolved:
    """Return what the node is asked to run, and that nothing bounds it here.

    Args:
        command: What the caller wants.
        profile: The least that this server's rules want for the caller; the node may choose a stronger one.
        inside: The process in whose tree the caller lives.
        kind: What kind of place it is,
        backend: and its name.

    Raises:
        InvalidRequest: It makes no sense, or needs something of this machine.
        CommandRefused: `profile_too_weak`: the caller may write to its own folder only, and there is none of
        it there.
        StartFailed: `argument_too_long`.
    """
    check_command(command)
    if command.stdin == "lent":
        text = "stdin: a descriptor of this machine cannot be lent to a node."
        raise InvalidRequest("invalid_params", text, hint='Pass "pipe", and write to it.')
    if command.prelude is not None or command.start_file is not None:
        text = "A named workspace needs files of this machine: it cannot be on a node."
        raise InvalidRequest("invalid_params", text, hint="Leave out `backend`, or the workspace.")
    if inside is not None and inside.sandbox.profile.strength >= Profile.WORKSPACE.strength:
        text = (
            f"The caller runs in the profile {inside.sandbox.profile.value!r}: it may start on this "
            "machine only."
        )
        raise CommandRefused("profile_too_weak", text)
    return Resolved(
        program="",
        argv=command.argv if command.argv is not None else (command.line or "",),
        env={name: value for name, value in command.env.items() if value is not None},
        cwd=command.cwd or "",
        shell=None,
        script=b"" if command.script is None else as_bytes(command.script or "\n"),
        location=Location(kind=kind, backend=backend, image=command.image),
        meta={ASKED: _asked(command, profile)},
        sandbox=Sandbox(profile=profile),
    )


def _asked(command: Command, profile: Profile) -> Mapping[str, object]:
    """Return what of a command the spec has no other place for, by the names of `execute`."""
    limits = {
        name.removesuffix("_s").removesuffix("_bytes"): value
        for name, value in asdict(command.limits).items()
        if value is not None
    }
    asked: dict[str, object] = {
        "command": command.line,
        "argv": None if command.argv is None else list(command.argv),
        "cwd": command.cwd,
        "env": dict(command.env),
        "title": command.title,
        "profile": None if profile is Profile.OPEN and command.profile is None else profile.value,
        "limits": limits,
        "tags": dict(command.tags),
        "image": command.image,
        "isolation": command.isolation,
    }
    if not command.inherits_env:
        asked["inherit_env"] = False
    return {name: value for name, value in asked.items() if value not in (None, {})}


def execute_words(spec: Spec, script: bytes, secrets: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of `execute`, by the names of the client's `StartOptions`. Pure.

    What only the caller knows stands in the spec's `meta`. The process is detached there: whose it is, and
    what becomes of it when that client goes, is decided here.
    """
    asked = spec.meta.get(ASKED)
    words: dict[str, object] = dict(asked) if isinstance(asked, dict) else {"argv": list(spec.argv)}
    words |= {name: getattr(spec, name) for name in _AS_THEY_ARE}
    words |= {"detach": True, "pty": spec.stdio == "pty", "merge": spec.stdio == "merge"}
    words |= {name: value for name in _IF_SET if (value := getattr(spec, name)) is not None}
    if script:
        words["script"] = script.decode("utf-8", "surrogateescape")
    if secrets:
        words["env_secrets"] = dict(secrets)
    return words
