"""Commands that run on a node: nothing of this machine is looked up for them, and nothing of its environment goes over.

What the caller said travels in the spec's `meta` under `ASKED`, and the node resolves it: program, folder, environment,
sandbox and limits are its own.
"""

from collections.abc import Mapping
from dataclasses import asdict

from outlive.core.command import Command
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.location import Kind, Location
from outlive.core.process import ProcessRecord
from outlive.core.sandbox import Profile, Sandbox
from outlive.engine.commands.resolver import Resolved, as_bytes, check_words
from outlive.engine.commands.sandbox import Confined

ASKED = "asked"  # the member of a spec's `meta`


def resolve_elsewhere(
    command: Command, profile: Profile, inside: ProcessRecord | None, *, kind: Kind, backend: str
) -> tuple[Resolved, Confined]:
    """Return what the node is asked to run, and that nothing bounds it here.

    Args:
        command: What the caller wants.
        profile: The least that this server's rules want for the caller; the node may choose a stronger one.
        inside: The process in whose tree the caller lives.
        kind: What kind of place it is,
        backend: and its name.

    Raises:
        InvalidRequest: It makes no sense, or needs something of this machine.
        CommandRefused: `profile_too_weak`: the caller may write to its own folder only, and there is none of it there.
        StartFailed: `argument_too_long`.
    """
    check_words(command)
    if command.stdin == "lent":
        text = "stdin: a descriptor of this machine cannot be lent to a node."
        raise InvalidRequest("invalid_params", text, hint='Pass "pipe", and write to it.')
    if command.prelude is not None or command.start_file is not None:
        text = "A named workspace needs files of this machine: it cannot be on a node."
        raise InvalidRequest("invalid_params", text, hint="Leave out `backend`, or the workspace.")
    if inside is not None and inside.sandbox.profile.strength >= Profile.WORKSPACE.strength:
        text = f"The caller runs in the profile {inside.sandbox.profile.value!r}: it may start on this machine only."
        raise CommandRefused("profile_too_weak", text)
    resolved = Resolved(
        program="",
        argv=command.argv if command.argv is not None else (command.line or "",),
        env={name: value for name, value in command.env.items() if value is not None},
        cwd=command.cwd or "",
        shell=None,
        script=b"" if command.script is None else as_bytes(command.script or "\n"),
        location=Location(kind=kind, backend=backend, image=command.image),
        meta={ASKED: _asked(command, profile)},
    )
    return resolved, Confined(sandbox=Sandbox(profile=profile))


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
