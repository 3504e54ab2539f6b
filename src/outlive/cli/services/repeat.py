"""`outlive restart` and `outlive rerun`: a command again, as its folder says that it was started.

The folder of a process holds all that it was started with, but for what no file may hold: values of `--secret`, which are asked for or
named, and the environment of an MCP host, in whose place this shell's comes. A token of the server (`--grant`) is given anew. The new
process has an id of its own, and the id of the one that it repeats in its tag `repeats`. The server judges the start as any other.

Not repeated is a key: a start with it would answer with the process that has it, and run nothing. Nor is what makes a process a
service's, its tag and its name: what is run beside a service is none, and must not have the name that the service needs.
"""

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outlive.cli.far import far_url
from outlive.cli.output import say, show, show_error, show_json
from outlive.cli.parameters import NAMES, SERVER, ServerFlags, options, seconds, takes
from outlive.cli.processes import called, connected, find_process
from outlive.cli.services.down import TIMEOUT, restart_services
from outlive.cli.services.project_file import known_stack
from outlive.cli.services.up import FILE
from outlive.cli.tables import shown_command
from outlive.client import (
    Client,
    InvalidRequest,
    InvalidState,
    OutliveError,
    Process,
    ProcessInfo,
    StackInfo,
    StartOptions,
)
from outlive.core.errors import ProcessNotFound
from outlive.core.layout import Layout
from outlive.core.spec import CALLER_ENVIRONMENT, REPEATED, Spec
from outlive.discovery.own_kind import TOKEN_VARIABLE
from outlive.discovery.state_folder import layout_of
from outlive.operations.services.declaration import SERVICE_TAG, SERVICES_DOOR
from outlive.protocols.keeper import decode_spec

REPEATS = "repeats"  # the tag
_FAILED = 1
_GONE_S = 20.0  # beyond the grace period a tree is gone so soon, or the keeper says why not
# The server sets these anew for each process; a token of its own is the old process's.
_OF_THE_PROCESS = frozenset({"OUTLIVE_PROCESS_ID", "OUTLIVE_STATE_DIR", TOKEN_VARIABLE})
_PRELUDE, _USERS_PRELUDE = (
    "BASH_ENV",
    "OUTLIVE_BASH_ENV",
)  # what MCP's tools put before a line, and whose place it takes


class Repetition(NamedTuple):
    """A start that repeats another one; `secrets` are the variables whose values were stored nowhere."""

    command: str | tuple[str, ...]
    options: StartOptions
    secrets: tuple[str, ...]


def repetition_of(spec: Spec, info: ProcessInfo, *, script: str | None, script_path: str) -> Repetition:
    """Return the start that repeats a process. Pure.

    Args:
        spec: What the keeper was asked to run, and what else was asked for.
        info: What is known of the process: name, labels, sandbox.
        script: The content of its script file, if it has one.
        script_path: Where that lies.
    """
    is_here = info.location is None
    options: StartOptions = {
        "cwd": spec.cwd,
        "env": _environment(spec.env),
        "inherit_env": not is_here,  # elsewhere the rest is the other machine's, or the image's
        "stdin": "pipe" if spec.stdin == "pipe" else "none",
        "pty": spec.stdio == "pty",
        "merge": spec.stdio == "merge",
        "rows": spec.rows,
        "cols": spec.cols,
        "timeout_s": info.timeout_s,
        "grace_s": info.grace_s,
        "after_exit": spec.after_exit,  # type: ignore[typeddict-item] # one of its words
        "profile": info.profile,
        "tags": {**info.tags, REPEATS: info.process_id},
        "group": info.group,
        "project": info.project,
        "name": info.name,
    }
    if spec.meta.get("door") == SERVICES_DOOR:
        options["name"] = None
        options["tags"] = {name: value for name, value in options["tags"].items() if name != SERVICE_TAG}
    if isinstance(asked := spec.meta.get(REPEATED), dict):
        options |= asked  # type: ignore[typeddict-item] # what an earlier start has asked for
    if spec.on_limit != "block":  # of a foreground, whose reader is not there this time
        options |= {"output_limit": spec.output_limit, "on_limit": spec.on_limit}  # type: ignore[typeddict-item] # as above
    if not info.redacted:
        options["title"] = info.command
    if spec.umask is not None:
        options["umask"] = spec.umask
    if isinstance(limits := spec.meta.get("limits"), dict):
        options["limits"] = limits
    if info.location is not None:
        options |= {"backend": info.location["backend"], "image": info.location.get("image")}
    command: str | tuple[str, ...] = spec.argv
    if info.shell is not None:
        # A long line lies in the script file, and what the shell was given only reads that.
        command = spec.argv[-1] if script is None else script
    elif script is not None and spec.argv[-1:] == (script_path,):
        command, options["script"] = spec.argv[:-1], script
    # The token of a grant is the old process's; the server makes another one.
    not_asked = {CALLER_ENVIRONMENT, *((TOKEN_VARIABLE,) if "grant" in spec.meta else ())}
    secrets = tuple(name for name in spec.secrets if name not in not_asked)
    return Repetition(command, {name: value for name, value in options.items() if value is not None}, secrets)  # type: ignore[arg-type] # its own members


def _environment(stored: Mapping[str, str]) -> dict[str, str | None]:
    env: dict[str, str | None] = {
        name: value for name, value in stored.items() if name not in _OF_THE_PROCESS
    }
    users = env.pop(_USERS_PRELUDE, None)
    if users is not None:
        env[_PRELUDE] = users
    elif (env.get(_PRELUDE) or "").startswith(os.path.dirname(__file__).partition("/cli/")[0]):
        del env[_PRELUDE]
    return env


_SECRETS = options(
    "--secret",
    metavar="NAME",
    about="Give it this variable of yours, which was stored nowhere.",
    to="secrets",
)


@takes(
    NAMES._replace(about="Services of this folder's project, or processes."),
    seconds("--grace", about="Time between TERM and KILL; services have their own.", to="grace_s")._replace(
        flags=("--grace", "-t")
    ),
    _SECRETS,
    FILE,
    TIMEOUT._replace(about="Wait no longer for services to be ready; 124 then."),
    *SERVER,
)
def restart(
    *,
    names: list[str],
    grace_s: float | None,
    secrets: list[str],
    file: str | None,
    timeout_s: float,
    server: ServerFlags,
) -> int:
    """Run services or commands again in the place of those that live.

    Raises:
        InvalidRequest: Both are named at once.
    """
    with connected(server) as client:
        stack = known_stack(client, file) if far_url() is None else _far_stack(client, names)
        known = set() if stack is None else {one.name for one in stack.services}
        services = [name for name in names if name in known]
        if stack is not None and len(services) == len(names):
            return restart_services(
                client, stack.folder, services, timeout_s=timeout_s, as_json=server.as_json
            )
    if services:
        text = f"Of these only {', '.join(services)} are services."
        raise InvalidRequest(
            "invalid_params", text, hint="Restart services and other processes one after the other."
        )
    if file is not None:
        text = f"No service of {file} is called {names[0][:60]!r}."
        raise InvalidRequest("invalid_params", text, hint="`outlive up` starts what the file declares.")
    return _each(names, server, secrets=secrets, stops=True, grace_s=grace_s)


def _far_stack(client: Client, names: Sequence[str]) -> StackInfo | None:
    """Return the services of another machine that have all these names; None where there are none.

    Raises:
        InvalidRequest: Those of several folders have: this folder says nothing about that machine.
    """
    found = [
        one for one in client.services.list() if set(names) <= {service.name for service in one.services}
    ]
    if len(found) > 1:
        text = f"Services of several folders are called so: {', '.join(one.folder for one in found[:5])}."
        raise InvalidRequest("process_ambiguous", text, hint="Restart them on that machine, in their folder.")
    return found[0] if found else None


@takes(NAMES, _SECRETS, *SERVER)
def rerun(*, names: list[str], secrets: list[str], server: ServerFlags) -> int:
    """Run commands again; what lives goes on."""
    return _each(names, server, secrets=secrets, stops=False)


def start_again(word: str, server: ServerFlags) -> int | None:
    """Run the command of an ended process again; None where no process is called so.

    Raises:
        InvalidState: It lives.
    """
    with connected(server) as client:
        try:
            process = find_process(client, word)
        except OutliveError:
            return None
        if process.info().ended_at is None:
            text = f"{word!r} lives already."
            raise InvalidState("process_running", text, hint=f"`outlive restart {word}` starts it anew.")
    return _each([word], server, secrets=(), stops=False)


def _each(
    names: Sequence[str],
    server: ServerFlags,
    *,
    secrets: Sequence[str],
    stops: bool,
    grace_s: float | None = None,
) -> int:
    """Repeat each process, and say what runs now; return the exit code."""
    if far_url() is not None:
        text = "What a process was started with lies on the other machine."
        raise InvalidRequest("invalid_params", text, hint="Run this verb there.")
    layout = layout_of(server.state_dir)
    outcomes: list[dict[str, object]] = []
    with connected(server) as client:
        for name in names:
            try:
                process = find_process(client, name)
                info = process.info()
                new = _repeat(client, layout, process, info, secrets=secrets, stops=stops, grace_s=grace_s)
            except OutliveError as error:
                outcomes.append({"name": name, "process_id": None, "repeats": None, "ok": False})
                show_error(error, word=name)
                continue
            outcomes.append(
                {"name": name, "process_id": new.process_id, "repeats": info.process_id, "ok": True}
            )
            if not server.as_json:
                show(new.process_id)
                say(f"{called(info)} runs again: {shown_command(info)}")
    if server.as_json:
        show_json({"processes": outcomes})
    return 0 if all(one["ok"] for one in outcomes) else _FAILED


def _repeat(
    client: Client,
    layout: Layout,
    process: Process,
    info: ProcessInfo,
    *,
    secrets: Sequence[str],
    stops: bool,
    grace_s: float | None,
) -> Process:
    spec, script = _stored(layout, info)
    found = repetition_of(spec, info, script=script, script_path=f"{layout.process(info.process_id)}/script")
    options = found.options
    if CALLER_ENVIRONMENT in spec.secrets:
        say("outlive: the environment of its MCP host was stored nowhere: it gets this shell's.")
        ours = {name: value for name, value in os.environ.items() if name not in _OF_THE_PROCESS}
        options["env"] = {**ours, **options["env"]}
    # Before anything ends: what cannot be started again goes on.
    if found.secrets:
        options["env_secrets"] = _given(found.secrets, secrets)
    if info.ended_at is None:
        if not stops and options.get("name") is not None:
            text = f"{info.name!r} lives: two cannot have one name."
            raise InvalidState("name_taken", text, hint=f"`outlive restart {info.name}` stops it first.")
        if stops and options.get("name") is not None and grace_s is None:
            options["replace"] = True  # the server ends it once nothing else can refuse the start
        elif stops:
            process.cancel(grace_s)
            process.wait((info.grace_s if grace_s is None else grace_s) + _GONE_S)
    return client.start(found.command, **options)


def _stored(layout: Layout, info: ProcessInfo) -> tuple[Spec, str | None]:
    """Return what a folder says of a process's start.

    Raises:
        InvalidRequest: It is a terminal's shell.
        ProcessNotFound: The folder is not there, or of another version.
    """
    folder = layout.process(info.process_id)
    try:
        with open(f"{folder}/spec", "rb") as file:
            spec = decode_spec(file.read())
    except (OSError, ValueError, LookupError):
        text = f"What {info.process_id} was started with cannot be read."
        raise ProcessNotFound("process_not_found", text) from None
    if spec.meta.get("terminal") is not None:
        hint = "`outlive terminal new` opens one."
        raise InvalidRequest("invalid_params", "It is the shell of a terminal.", hint=hint)
    try:
        with open(f"{folder}/script", "rb") as file:
            return spec, file.read().decode("utf-8", "surrogateescape")
    except OSError:
        return spec, None


def _given(needed: Sequence[str], named: Sequence[str]) -> dict[str, str]:
    """Return the values of secret variables: those that the caller has named and has, else typed at a terminal.

    Raises:
        InvalidRequest: Some are missing, and no person can be asked.
    """
    found = {name: os.environ[name] for name in named if name in os.environ}
    missing = [name for name in needed if name not in found]
    if missing and sys.stdin is not None and sys.stdin.isatty():
        found |= {name: getpass.getpass(f"{name}: ") for name in missing}
        missing = []
    if missing:
        text = f"These variables were stored nowhere: {', '.join(missing)}."
        flags = " ".join(f"--secret {name}" for name in missing)
        raise InvalidRequest("invalid_params", text, hint=f"Set them here, and pass {flags}.")
    return {name: value for name, value in found.items() if name in needed}
