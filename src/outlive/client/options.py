"""The options of a start: `StartOptions`, and how they become parameters of `execute`. Pure.

Nothing is validated here: the server does that once, for every frontend. The options stand in
`operations.start`, too, which may not be imported: it takes msgspec along, and users see these types.
tests/client/test_options.py compares the two.
"""

import binascii
import os
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, cast


class FlagOptions(TypedDict, total=False):
    """Those options of `StartOptions` that are one word or number, and mean the same on a command line: each
    is a flag there.
    """

    timeout_s: float | None
    group: str | None
    group_limit: int | None
    profile: str | None
    backend: str | None
    image: str | None
    isolation: Literal["session", "strict"] | None
    grant: str | None
    key: str | None
    name: str | None
    grace_s: float | None


class StartOptions(FlagOptions, total=False):
    """Everything a start takes besides the command; what is left out is the server's default.

    cwd: Working folder; the server's own by default.
    env: Added to the server's environment; a None value removes a name. inherit_env False: it is all there
    is.
    timeout_s: When the whole tree is ended; never by default.
    env_secrets: More variables; their values are written nowhere, and only their names are kept.
    grace_s: Seconds between TERM and KILL.
    stdin: "none" (it reads end-of-file at once, the default) or "pipe" (`write` and `close_stdin` feed it).
        "lent": a descriptor was handed to the keeper before, under the `process_id`.
    pty: Give it a terminal of `rows` by `cols` (24 by 80); all output is stdout then.
    merge: stdout and stderr through one pipe, in their exact order; all output is stdout then.
    detach: True (the default): it belongs to your user and lives on without this client. False: it is private
        to this client, and cancelled some seconds after the client went away.
    title: What lists show instead of the words.
    tags, group: Names of yours, kept with it; `list` finds by them.
    group_limit: How many of the group run at once from now on; one more is queued until its turn comes.
    output_limit: Bytes of output that are kept; on_limit: beyond it "truncate" (releases the middle), "kill",
        or "block": the process waits until `release` reports what was delivered.
    after_exit: What becomes of its descendants: "keep" (the default), "kill", or "wait" (complete when they
    are gone).
    profile: The sandbox: "open", "guarded", "workspace", "offline" or "sealed"; the server's default, or a
    stronger one.
    limits: Bounds below the server's own: "cpu" (seconds of each process), "cpus" (processors of all
        together, like 1.5), "memory" (bytes), "files", "processes".
    script: With a program and its arguments: the content of a file whose path becomes the last of them.
    needs: What the machine must have that runs it: "cpu", "memory" (bytes), "gpu", "labels" (a mapping),
        "same_node_as" (a process), "spread" and "wait" (True). It waits for a machine that has it free; with
        "wait" False it is refused.
    backend: Where it runs: "local", "docker", the name of a node, or "any" (by its needs); the server's
        default otherwise. image, isolation ("session" or "strict"): of what image its container is, and
        whether it has one of its own.
    grant: What it may do with the server itself, by a token of its own that counts while it runs: "run",
    "read:1h".
    notify: True, or some of "end", "failure" and "question": a person is notified of these, as the server's
    operator chose.
    project: The folder that it belongs to, absolute: its short id ("p7") and `key` are unique there.
    key: Your name for it in the project. A start with a known key answers for the earlier process and runs
        nothing (`is_new` False); with another command it is refused. Private processes (`detach=False`) are
        not found so.
    name: What it is called: accepted wherever an id is, in its project. Only one that lives has it
        (`name_taken`); replace: with a name, the one that has it is ended first.
    umask, nice: What it begins with (0o022; -20 to 19, as far as its server may); this program's own by
    default.
    traceparent: The span in which it is started (W3C Trace Context); what TRACEPARENT in this program's
    environment says by default.
    process_id: Its name, a ULID in lower case; one is made otherwise. Starting with it again starts nothing
    twice.
    """

    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str | None]
    env_secrets: Mapping[str, str]
    inherit_env: bool
    stdin: Literal["none", "pipe", "lent"]
    pty: bool
    rows: int
    cols: int
    merge: bool
    detach: bool
    title: str | None
    project: str | None
    replace: bool
    tags: Mapping[str, str]
    output_limit: int | None
    on_limit: Literal["truncate", "block", "kill"]
    after_exit: Literal["keep", "kill", "wait"]
    limits: Mapping[str, float]
    needs: Mapping[str, object]
    script: str | None
    notify: bool | Sequence[Literal["end", "failure", "question", "silence"]]
    umask: int | None
    nice: int | None
    traceparent: str | None
    process_id: str


_NAMES = StartOptions.__optional_keys__
_WORDS = ("command", "cwd", "script")
_VARIABLES = ("env", "env_secrets")
_MAPPINGS = {"env", "env_secrets", "limits", "needs", "tags"}
_WIRE_NAMES: Mapping[str, str] = {"timeout_s": "timeout", "grace_s": "grace"}


def check_names(options: Mapping[str, object]) -> None:
    """Refuse an option that no start has: a server ignores what it does not know, and it would be lost.

    Raises:
        TypeError: As Python's own, with the nearest name that there is.
    """
    if unknown := options.keys() - _NAMES:
        import difflib  # noqa: PLC0415 -- start-up time: 5 ms that only a misspelt name has to pay

        name = min(unknown)
        near = difflib.get_close_matches(name, _NAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"start() got an unexpected keyword argument {name!r}{hint}")


def execute_params(
    command: str | Sequence[str], options: StartOptions, *, process_id: str
) -> dict[str, object]:
    """Return the parameters of `execute`; its output is followed elsewhere, if at all."""
    params: dict[str, object] = {_WIRE_NAMES.get(name, name): value for name, value in options.items()}
    params["command" if isinstance(command, str) else "argv"] = (
        command if isinstance(command, str) else list(command)
    )
    if (cwd := options.get("cwd")) is not None:
        params["cwd"] = os.fspath(cwd)
    if (umask := options.get("umask")) is not None:
        params["umask"] = f"{umask:03o}"  # as callers write it
    for name in _MAPPINGS & params.keys():
        params[name] = dict(cast("Mapping[str, object]", params[name]))  # JSON knows no other mappings
    # Concurrent: other starts of this client need not wait for this one, since answers are matched by number.
    params |= {"process_id": process_id, "concurrent": True, "output": "none"}
    params["detach"] = options.get("detach", True)
    return params if all(map(_is_text, _texts(params))) else _encoded(params)


def _texts(params: Mapping[str, object]) -> list[str]:
    """Return every text that may hold bytes which are no UTF-8 (PEP 383)."""
    argv = params.get("argv")
    found = [text for name in _WORDS if isinstance(text := params.get(name), str)]
    found += argv if isinstance(argv, list) else []
    for member in _VARIABLES:
        variables = params.get(member)
        for name, value in variables.items() if isinstance(variables, dict) else ():
            found += [name] if value is None else [name, value]
    return found


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= mark <= "\udfff" for mark in text)


def _encoded(params: dict[str, object]) -> dict[str, object]:
    encoded = params | {"words": "base64"}
    for name in _WORDS:
        if isinstance(text := params.get(name), str):
            encoded[name] = _base64(text)
    if isinstance(argv := params.get("argv"), list):
        encoded["argv"] = list(map(_base64, argv))
    for member in _VARIABLES:
        if isinstance(variables := params.get(member), dict):
            encoded[member] = {
                _base64(name): None if value is None else _base64(value) for name, value in variables.items()
            }
    return encoded


def _base64(text: str) -> str:
    return binascii.b2a_base64(os.fsencode(text), newline=False).decode("ascii")
