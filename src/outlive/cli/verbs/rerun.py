"""`outlive rerun`: a command again, as its folder says that it was started; `repeat_each` does so for other
verbs, too.

The folder of a process holds all that it was started with, but for what no file may hold: values of
`--secret`, which are asked for or named, and the environment of an MCP host, in whose place this shell's
comes. A token of the server (`--grant`) is given anew. The new process has an id of its own, and the id of
the one that it repeats in its tag `repeats`. The server judges the start as any other.

What is repeated of it, `operations.repetition` decides. The server's own `rerun` asks for no secrets and
gives its own environment; this one asks.
"""

import os
import sys
from collections.abc import Sequence
from typing import cast

import outlive
from outlive.cli.far import far_url
from outlive.cli.output import say, show, show_error, show_json, typed_secret
from outlive.cli.parameters import NAMES, SERVER, ServerFlags, options, takes
from outlive.cli.processes import called, connected, find_process
from outlive.cli.tables import shown_command
from outlive.client import (
    Client,
    InvalidRequest,
    InvalidState,
    OutliveError,
    Process,
    ProcessInfo,
    StartOptions,
)
from outlive.core.layout import Layout
from outlive.core.values import names_of
from outlive.discovery.state_folder import layout_of
from outlive.operations.repetition import OF_THE_PROCESS, RepeatedProcess, repetition_of
from outlive.store.folder import read_start

_FAILED = 1
_GONE_S = 20.0  # beyond the grace period a tree is gone so soon, or the keeper says why not

SECRETS = options(
    "--secret",
    metavar="NAME",
    about="Give it this variable of yours, which was stored nowhere.",
    to="secrets",
)


@takes(NAMES, SECRETS, *SERVER)
def rerun(*, names: list[str], secrets: list[str], server: ServerFlags) -> int:
    """Run commands again; what lives goes on."""
    return repeat_each(names, server, secrets=secrets, stops=False)


def start_again(word: str, server: ServerFlags) -> int | None:
    """Run the command of an ended process again, or continue a paused one; None where no process is called
    so.

    Raises:
        InvalidState: It runs.
    """
    with connected(server) as client:
        try:
            process = find_process(client, word)
        except OutliveError:
            return None
        info = process.info()
        if info.state == "paused":
            process.resume()
            say(f"{called(info)} goes on: {shown_command(info)}")
            return 0
        if info.ended_at is None:
            text = f"{word!r} lives already."
            raise InvalidState("process_running", text, hint=f"`outlive restart {word}` starts it anew.")
    return repeat_each([word], server, secrets=(), stops=False)


def repeat_each(
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
    spec, script, path = read_start(layout.process(info.process_id))
    package = os.path.dirname(outlive.__file__)
    found = repetition_of(spec, _known(info), script=script, script_path=path, package=package)
    options = cast("StartOptions", found.options)
    if found.lacks_environment:
        say("outlive: the environment of its MCP host was stored nowhere: it gets this shell's.")
        ours = {name: value for name, value in os.environ.items() if name not in OF_THE_PROCESS}
        options["env"] = {**ours, **options["env"]}
    # Before anything ends: what cannot be started again goes on.
    if found.secrets:
        found.give(_given(found.secrets, secrets))
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


def _known(info: ProcessInfo) -> RepeatedProcess:
    members = {name: getattr(info, name) for name in names_of(RepeatedProcess)}
    return RepeatedProcess(**members)


def _given(needed: Sequence[str], named: Sequence[str]) -> dict[str, str]:
    """Return the values of secret variables: those that the caller has named and has, else typed at a
    terminal.

    Raises:
        InvalidRequest: Some are missing, and no person can be asked.
    """
    found = {name: os.environ[name] for name in named if name in os.environ}
    missing = [name for name in needed if name not in found]
    if missing and sys.stdin is not None and sys.stdin.isatty():
        found |= {name: typed_secret(name) for name in missing}
        missing = []
    if missing:
        text = f"These variables were stored nowhere: {', '.join(missing)}."
        flags = " ".join(f"--secret {name}" for name in missing)
        raise InvalidRequest("invalid_params", text, hint=f"Set them here, and pass {flags}.")
    return {name: value for name, value in found.items() if name in needed}
