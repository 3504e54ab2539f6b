"""From a `Command` to what was decided about it (`Resolved`): shell, program, folder, environment, checks.

Refuses before the keeper is asked, with a reason and a hint. What the file system said is believed for a
second: a start costs no thread and no system call here in the usual case, and the kernel has the last word
anyway.

`check_folder` and `find_program` ask the file system as the shell would. They block: run them in a thread.
"""

import asyncio
import os
import shlex
import stat
import time
from collections.abc import Mapping, Sequence

from outlive.core.command import UNBOUND, Command, Sandbox, listed_environment
from outlive.core.errors import InvalidRequest, StartFailed
from outlive.core.identity import PROCESS_VARIABLE, ProcessId
from outlive.core.layout import Layout
from outlive.core.location import HERE, Location
from outlive.core.needs import Needs
from outlive.core.process import check_tags
from outlive.core.spec import SharedEnvironment
from outlive.core.values import dataclass, field, replace
from outlive.policy.patterns import ProgramFile

_MAX_LINKS = 40  # as the kernel follows (path_resolution(7))


def check_folder(cwd: str) -> str:
    """Return `cwd` when it is a folder that can be entered.

    Raises:
        StartFailed: `cwd_missing`, `permission_denied`.
    """
    if not os.path.isdir(cwd):
        what = "is not a folder" if os.path.exists(cwd) else "does not exist"
        raise StartFailed("cwd_missing", f"The working folder {cwd!r} {what}.", details={"cwd": cwd})
    if not os.access(cwd, os.X_OK):
        raise StartFailed(
            "permission_denied",
            f"The working folder {cwd!r} may not be entered.",
            hint="Choose another folder, or change its mode.",
            details={"cwd": cwd},
        )
    return cwd


def find_program(name: str, *, path: str, cwd: str) -> str:
    """Return the absolute path of a program: `name` itself when it has a slash, else the first match in
    `path`.

    As execvp(3): a file that may not be executed is remembered while the search goes on; empty and relative
    entries of `path` begin in `cwd`.

    Raises:
        StartFailed: `not_found`, `permission_denied`.
    """
    folders = [""] if "/" in name else path.split(":")
    is_forbidden = False
    for folder in folders:
        candidate = os.path.join(cwd, folder, name)
        try:
            mode = os.stat(candidate).st_mode
        except PermissionError:
            is_forbidden = True
            continue
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return candidate
        is_forbidden = True
    if is_forbidden:
        raise StartFailed(
            "permission_denied",
            f"{name!r} is there, but this user may not execute it.",
            hint="Make it executable (chmod +x), or run it through its interpreter.",
            details={"program": name},
        )
    raise StartFailed("not_found", f"No program {name!r} was found.", details={"program": name})


def look_up(word: str, *, path: str, cwd: str, own_path: str) -> ProgramFile | None:
    """Return the file that a program's name or path leads to, with every link on the way; None where there is
    none.

    `own_path` is the server's PATH: only its absolute folders count for `is_own`.
    """
    try:
        found = find_program(word, path=path, cwd=cwd)
        state = os.stat(found)
    except (StartFailed, OSError):
        return None
    identity = (state.st_dev, state.st_ino)
    paths = [_settled(found)]
    while len(paths) <= _MAX_LINKS:
        try:
            target = os.readlink(paths[-1])
        except OSError:  # no link: the file itself
            break
        paths.append(_settled(os.path.join(os.path.dirname(paths[-1]), target)))
    return ProgramFile(
        paths=tuple(paths),
        identity=identity,
        is_own=_identity_of(word.rpartition("/")[2], own_path) == identity,
    )


def _settled(path: str) -> str:
    """Return a path whose folder has no links in it; its last part may be one."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _identity_of(name: str, own_path: str) -> tuple[int, int] | None:
    folders = ":".join(folder for folder in own_path.split(":") if folder.startswith("/"))
    try:
        state = os.stat(find_program(name, path=folders or "/nonexistent", cwd="/"))
    except (StartFailed, OSError):
        return None
    return state.st_dev, state.st_ino


# execve(2): MAX_ARG_STRLEN is 32 pages (131072 bytes) with the final NUL, for each word of argv and
# environment.
_MAX_WORD_BYTES = 131_071
_MAX_LINE_BYTES = 100 * 1024  # longer lines run from a script file
_BELIEVED_S = 1.0
_MAX_BELIEVED = 256
_SECRET_NAMES = frozenset({"MCP_API_KEY", "OUTLIVE_BRIDGE_DIAL"})  # the latter may have a token in it
_SECRET_PARTS = ("TOKEN", "SECRET", "PASSWORD", "KEY")
_BASH_ENV = "BASH_ENV"
_USERS_BASH_ENV = "OUTLIVE_BASH_ENV"  # what a prelude gives back to the command
DEFAULT_TERM = "xterm-256color"


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the server's own secrets and settings."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _SECRET_NAMES
        and not (name.startswith("OUTLIVE_") and any(part in name for part in _SECRET_PARTS))
    }


def find_shell(environment: Mapping[str, str]) -> str:
    """Return the full path of bash where there is one, else of sh. Asks the file system."""
    for name in ("bash", "/bin/bash", "sh"):
        try:
            return find_program(name, path=environment.get("PATH", os.defpath), cwd="/")
        except StartFailed:
            continue
    return "/bin/sh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What was decided about a command: what will run, where, and within which bounds.

    `script` is the content of the process's script file (empty: none), `meta` more for the spec. `shared_env`
    are variables beside `env`, which has none of their names; `caller_env` those that stand in no file.
    `needs` are what the machine must have (None: nothing is counted). `sandbox` is what the record shows of
    the bounds; `steps` (None: none) and control `groups` are what the keeper makes of them.
    """

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    shell: str | None
    shared_env: SharedEnvironment | None = None
    caller_env: Mapping[str, str] = field(default_factory=dict)
    script: bytes = b""
    location: Location = HERE
    needs: Needs | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    sandbox: Sandbox = UNBOUND
    steps: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """Where the command finds programs."""
        return _path(self.env, self.shared_env, self.caller_env)


class Resolver:
    """Resolves commands against one clean environment and one default folder; `shell` runs command lines."""

    def __init__(
        self, layout: Layout, *, environment: Mapping[str, str], cwd: str, shell: str, is_strict: bool = False
    ) -> None:
        """`environment` is clean already, `cwd` the folder of commands that name none.

        `is_strict`: nothing that the file system said is believed, and bash reads no start-up file. It would
        read ~/.bashrc before a command line when SSH_CLIENT is set or its input is a socket, and SHLVL says
        that it is the first shell (bash(1), "INVOCATION").
        """
        self._is_strict = is_strict
        self._shell_options = ("--norc",) if is_strict and shell.rpartition("/")[2] == "bash" else ()
        self._layout = layout
        self._environment = {**environment, "OUTLIVE_STATE_DIR": layout.root}
        self._listed = {**listed_environment(environment), "OUTLIVE_STATE_DIR": layout.root}
        self._shared, self._shared_listed = map(_shared_part, (self._environment, self._listed))
        self._cwd = cwd
        self.shell = shell
        self._believed: dict[tuple[str, str, str], tuple[float, str]] = {}

    async def resolve(self, command: Command, process_id: ProcessId, *, is_listed: bool = False) -> Resolved:
        """Return what will run; with `is_listed` only listed names of the server's environment are passed on.

        Raises:
            InvalidRequest: `invalid_params`: empty, both forms at once, NUL, text that is no text.
            StartFailed: `cwd_missing`, `not_found`, `permission_denied`, `argument_too_long`.
        """
        check_command(command)
        cwd = os.path.join(self._cwd, *filter(None, (command.caller_cwd, command.cwd)))
        env: dict[str, str]
        shared = None
        base: Mapping[str, str] = {}
        if command.caller_env is not None:
            env, base = self._callers_environment(
                command, command.caller_env, process_id, cwd, is_listed=is_listed
            )
        elif command.env or not command.inherits_env or command.prelude is not None or command.stdio == "pty":
            env = self._effective_environment(command, process_id, cwd, is_listed=is_listed)
        else:  # as nearly always
            env = {"PWD": cwd, PROCESS_VARIABLE: process_id}
            shared = self._shared_listed if is_listed else self._shared
        if command.cwd or command.caller_cwd:
            await self._believe("", "", cwd)
        if command.argv is not None:
            program = await self._believe(command.argv[0], _path(env, shared, base), cwd)
            argv, script = command.argv, b""
            if command.script is not None:
                argv = (*argv, f"{self._layout.process(process_id)}/script")
                script = as_bytes(command.script) or b"\n"  # an empty script is a file all the same
            return Resolved(
                program=program,
                argv=argv,
                env=env,
                cwd=cwd,
                shell=None,
                shared_env=shared,
                caller_env=base,
                script=script,
            )
        line, script = shell_line(command.line or "", f"{self._layout.process(process_id)}/script")
        return Resolved(
            program=self.shell,
            argv=(self.shell, *self._shell_options, "-c", line),
            env=env,
            cwd=cwd,
            shell=self.shell,
            shared_env=shared,
            caller_env=base,
            script=script,
        )

    def _callers_environment(
        self,
        command: Command,
        callers: Mapping[str, str],
        process_id: ProcessId,
        cwd: str,
        *,
        is_listed: bool,
    ) -> tuple[dict[str, str], Mapping[str, str]]:
        """Return what the spec says of the environment, and the caller's own variables that stand beside
        it.
        """
        # A host that was itself started by a server has that server's key in its environment: it is for no
        # command.
        callers = clean_environment(callers)
        if is_listed:
            callers = listed_environment(callers)
        if command.prelude is not None:
            callers = _for_prelude(callers, is_said=_BASH_ENV in command.env)
        # What stands in the spec is made as for a command that inherits nothing; the caller's variables stand
        # beside it.
        bare = replace(command, inherits_env=False)
        env = {"PWD": cwd, **self._effective_environment(bare, process_id, cwd, is_listed=is_listed)}
        removed = {name for name, value in command.env.items() if value is None}
        return env, {
            name: value for name, value in callers.items() if name not in env and name not in removed
        }

    def _effective_environment(
        self, command: Command, process_id: ProcessId, cwd: str, *, is_listed: bool
    ) -> dict[str, str]:
        if not command.inherits_env:
            env = {"OUTLIVE_STATE_DIR": self._environment["OUTLIVE_STATE_DIR"]}
        else:
            env = {**(self._listed if is_listed else self._environment), "PWD": cwd}
        if command.stdio == "pty":
            env["TERM"] = DEFAULT_TERM  # the server's own terminal, if any, is not this one
        for name, value in command.env.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        if command.prelude is not None:
            users = env.pop(_BASH_ENV, None)
            env.pop(_USERS_BASH_ENV, None)
            env |= {_BASH_ENV: command.prelude, **({} if users is None else {_USERS_BASH_ENV: users})}
        env[PROCESS_VARIABLE] = process_id  # recovery and tree control find the command's descendants by it
        return env

    async def _believe(self, program: str, path: str, cwd: str) -> str:
        """Return the program's file (or the folder `cwd` itself for an empty name), asking at most once a
        second.
        """
        key = (program, path, cwd if not program or not os.path.isabs(program) else "")
        now = time.monotonic()
        known = self._believed.get(key)
        if known is not None and now - known[0] < _BELIEVED_S and not self._is_strict:
            return known[1]
        if program:
            answer = await asyncio.to_thread(find_program, program, path=path, cwd=cwd)
        else:
            answer = await asyncio.to_thread(check_folder, cwd)
        if len(self._believed) >= _MAX_BELIEVED:
            self._believed.clear()
        self._believed[key] = (now, answer)
        return answer


def _for_prelude(callers: Mapping[str, str], *, is_said: bool) -> dict[str, str]:
    """Return a caller's variables with its BASH_ENV under the name from which a prelude gives it back.

    It stays among those that stand in no file. `is_said`: the command itself says what becomes of it, and the
    caller's does not count.
    """
    renamed = {name: value for name, value in callers.items() if name not in {_BASH_ENV, _USERS_BASH_ENV}}
    if _BASH_ENV in callers and not is_said:
        renamed[_USERS_BASH_ENV] = callers[_BASH_ENV]
    return renamed


def _shared_part(environment: Mapping[str, str]) -> SharedEnvironment:
    """Return what of an environment is the same for all commands."""
    return SharedEnvironment(
        {name: value for name, value in environment.items() if name not in {"PWD", PROCESS_VARIABLE}}
    )


def _path(
    env: Mapping[str, str], shared: SharedEnvironment | None, callers: Mapping[str, str] | None = None
) -> str:
    found = env.get("PATH")
    for base in (None if shared is None else shared.values, callers):
        if found is None and base is not None:
            found = base.get("PATH")
    return os.defpath if found is None else found


def shell_line(line: str, script_path: str) -> tuple[str, bytes]:
    """Return a line as a shell takes it behind -c, and what has to lie at `script_path` for that (empty:
    nothing).
    """
    encoded = as_bytes(line)
    if len(encoded) > _MAX_LINE_BYTES:
        return f". {shlex.quote(script_path)}", encoded
    # Else the shell takes it for an option.
    return (" " + line if line[0] in "-+" else line), b""


def check_command(command: Command) -> None:
    """Let a command pass that can be written down and handed to a program.

    Raises:
        InvalidRequest: `invalid_params`: empty, both forms at once, NUL, text that is no text, tags that are
        none.
        StartFailed: `argument_too_long`.
    """
    if (command.line is None) == (command.argv is None):
        raise InvalidRequest("invalid_params", "A command is either a line or an argv.")
    if command.script is not None:
        if command.argv is None:
            raise InvalidRequest("invalid_params", "A script needs an interpreter: pass it as argv.")
        _check_text(command.script, "script")
    if command.line is not None:
        if not command.line.strip():
            raise InvalidRequest("invalid_params", "The command is empty.")
        _check_text(command.line, "command")
    elif not command.argv or not command.argv[0]:
        raise InvalidRequest("invalid_params", "The argv is empty or names no program.")
    if command.argv is not None:
        # In one text: a command of 5,000 words is no reason for 5,000 calls.
        words = "".join(command.argv)
        _check_text(words, "argv")
        if (
            len(words) * 4 > _MAX_WORD_BYTES
        ):  # else no single one can be too long: a character has at most four bytes
            _check_lengths(command.argv, "An argument")
    if command.tags:
        check_tags(command.tags)
    if command.cwd is not None:
        _check_text(command.cwd, "cwd")
    if command.env or command.caller_env:
        _check_environment({**(command.caller_env or {}), **command.env})


def _check_environment(env: Mapping[str, str | None]) -> None:
    for name, value in env.items():
        if not name or "=" in name:
            raise InvalidRequest("invalid_params", f"Not a name of an environment variable: {name[:40]!r}.")
        _check_text(name, "env")
        if value is not None:
            _check_text(value, "env")
            _check_lengths([f"{name}={value}"], f"The environment variable {name[:40]}")


def _check_text(text: str, where: str) -> None:
    if "\0" in text:
        raise InvalidRequest(
            "invalid_params", f"NUL in {where}: no program can be given one.", details={"parameter": where}
        )
    if not text.isascii():
        try:
            as_bytes(text)
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "invalid_params", f"Half of a surrogate pair in {where}.", details={"parameter": where}
            ) from error


def _check_lengths(words: Sequence[str], what: str) -> None:
    for word in words:
        size = len(as_bytes(word))
        if size > _MAX_WORD_BYTES:
            raise StartFailed(
                "argument_too_long",
                f"{what} has {size} bytes; the system allows {_MAX_WORD_BYTES}.",
                details={"bytes": size, "limit_bytes": _MAX_WORD_BYTES},
            )


def as_bytes(text: str) -> bytes:
    """Return a text as programs get it: what was no UTF-8 (PEP 383) is itself again."""
    return text.encode("utf-8", "surrogateescape")  # as protocols.frames writes the spec
