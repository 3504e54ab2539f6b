"""Asking for the command: what it is given of ours (folder, environment, standard input), once and for
certain.

What a program inherits from its shell besides folder and environment: closed descriptors, ignored signals,
descriptors above 2.

The keeper spawns commands with none of that. Where ours is not the usual, a shell sets it and becomes the
command; descriptors are lent. Umask and niceness travel with every start (`client.options`).
"""

import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from outlive.cli.foreground.delivery import LOG_BYTES
from outlive.cli.foreground.plan import ForegroundOptions, Plan, parse_needs
from outlive.cli.output import say
from outlive.cli.processes import parse_tags
from outlive.cli.server.keeper_client import KeeperClient
from outlive.client import (
    BackendUnavailable,
    Client,
    InvalidRequest,
    OutliveError,
    Process,
    StartFailed,
    StartOptions,
)
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.layout import Layout
from outlive.core.location import DOCKER
from outlive.discovery.own_kind import TOKEN_VARIABLE
from outlive.kernel import sockets
from outlive.kernel.project import own_folder, own_project, project_root

_REDIRECTIONS = ("<&-", ">&-", "2>&-")
# Python ignores these itself: whether they were ignored before cannot be known any more.
_NOT_KNOWN = {signal.SIGPIPE, signal.SIGXFSZ}


# What the shell does above, in Python; the environment is read as it was before Python added to it.
_PREPARING = """
import os, signal, sys
ignored, closed, *words = sys.argv[1:]
with open("/proc/self/environ", "rb") as file:
    pairs = [entry.split(b"=", 1) for entry in file.read().split(b"\\0") if b"=" in entry]
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
for number in ignored.split():
    signal.signal(int(number), signal.SIG_IGN)
for number in closed.split():
    os.close(int(number))
try:
    os.execvpe(words[0], words, dict(pairs))
except OSError as error:
    if "2" not in closed.split():
        print(f"outlive: {words[0]}: {error.strerror}", file=sys.stderr)
    sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
"""


class Surroundings(NamedTuple):
    """Ours, as they were found; `found` is to be called before anything else is opened.

    `descriptors` are those above 2.
    """

    environment: Mapping[str, str]
    closed: Sequence[int]
    ignored: Sequence[int]
    descriptors: Sequence[int]

    @classmethod
    def found(cls) -> "Surroundings":
        """Look, and open /dev/null in the place of standard descriptors that are closed.

        The next file would else take such a number.
        """
        closed = []
        for descriptor in (0, 1, 2):
            try:
                os.fstat(descriptor)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
                closed.append(descriptor)
        ignored = [
            int(number)
            for number in signal.valid_signals() - _NOT_KNOWN
            if signal.getsignal(number) is signal.SIG_IGN
        ]
        return cls(_environment(), closed, sorted(ignored), _inherited())

    @property
    def preparation(self) -> str:
        """The shell's words that make them so; empty where they are the usual ones."""
        words = []
        if self.ignored:
            words.append(f"trap '' {' '.join(map(str, self.ignored))}")
        if self.closed:
            words.append("exec " + " ".join(_REDIRECTIONS[descriptor] for descriptor in self.closed))
        return "; ".join(words)

    def around(self, argv: tuple[str, ...], *, by_shell: bool = False) -> tuple[str, ...]:
        """Return the words that run `argv` in them; with `by_shell` where our Python is not (a container)."""
        preparation = self.preparation
        if not preparation:
            return argv
        if by_shell or all(name.isascii() and name.isidentifier() for name in self.environment):
            return ("/bin/sh", "-c", f'{preparation}; exec "$@"', "outlive", *argv)
        # A shell passes on no variable whose name is none of its own (dash): functions that bash exports,
        # npm's settings. Python passes on all that there is.
        ignored, closed = (" ".join(map(str, numbers)) for numbers in (self.ignored, self.closed))
        return (sys.executable, "-I", "-S", "-c", _PREPARING, ignored, closed, *argv)

    def around_line(self, line: str) -> str:
        """Return a shell line that is `line` in them."""
        preparation = self.preparation
        return f"{preparation}\n{line}" if preparation else line


def _environment() -> Mapping[str, str]:
    """Return the environment as it was before Python added to it (LC_CTYPE, PEP 538), without our own
    token.
    """
    try:
        with open("/proc/self/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    pairs = (os.fsdecode(entry).partition("=") for entry in reversed(raw.split(b"\0")))
    return {name: value for name, equals, value in pairs if equals and name not in {"", TOKEN_VARIABLE}}


def _inherited() -> list[int]:
    """Return the descriptors above 2 that we inherited: Python opens none that a program of ours would get
    (PEP 446).
    """
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # that of this list is closed by now
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return sorted(found)


_TITLE = 1000  # characters
_MOST_LENT = 64  # descriptors above 2 (MOST_LENT in native/shim/start.c)
_TRIES = 5  # a keeper that is killed while it has our stdin in its hands has started nothing
_NO_PROGRAM_FORMAT = "Exec format error"  # ENOEXEC
_KEEPER_GONE = frozenset({"keeper_unavailable", "keeper_restarted", "timeout"})


def start(
    client: Client,
    layout: Layout,
    options: ForegroundOptions,
    plan: Plan,
    *,
    size: tuple[int, int] | None,
    surroundings: Surroundings,
    loan: contextlib.ExitStack,
) -> Process:
    """Start what the command line says.

    Args:
        client: Asks the server, which is started where none runs.
        layout: Where its keeper listens.
        options: What to run.
        plan: How it gets its standard streams.
        size: Rows and columns of its terminal.
        surroundings: What else it is to find as we did.
        loan: Holds what keeps our descriptors lent while the command waits for its turn or for an approval.

    Raises:
        OutliveError: It does not run.
    """
    wanted = _start_options(options, plan, surroundings, size)
    command: str | tuple[str, ...]
    if options.line is None:
        command = surroundings.around(options.argv)
    else:
        command = surroundings.around_line(options.line)
    descriptors = () if options.is_detached else surroundings.descriptors
    tries = _TRIES
    while True:
        process_id = new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
        try:
            with contextlib.ExitStack() as lent:
                if plan.stdin == "lent" or descriptors:
                    lent.enter_context(_lent(client, layout, process_id, descriptors))
                wanted["process_id"] = process_id
                process = client.start(command, **wanted)
                # A process that was started before with this key has not taken what was lent.
                if process.pid is None and process.is_new:
                    loan.push(lent.pop_all())
                # With a copy of ours a pipe would not end when the command closes its own.
                for number in descriptors:
                    os.close(number)
                return process
        except StartFailed as error:
            tries -= 1
            if error.code == "stdin_lost" and tries:
                continue
            if options.line is None and command[:1] == (sys.executable,) and command != options.argv:
                command = surroundings.around(options.argv, by_shell=True)
                continue
            if not _is_bare_script(error, options, command):
                raise
            # A file without an interpreter line is a script for sh (POSIX, 2.9.1.4), as every shell has it.
            command = ("/bin/sh", _path_of(options.argv[0], wanted), *options.argv[1:])


def start_elsewhere(
    client: Client, options: ForegroundOptions, plan: Plan, *, size: tuple[int, int] | None
) -> Process:
    """Start what the command line says on another machine: of our folder only the project's name goes over,
    of our environment nothing.

    Raises:
        OutliveError: It does not run.
    """
    command = options.argv if options.line is None else options.line
    ours = dict[str, str | None](os.environ)
    wanted: StartOptions = {
        "title": _title(options),
        "project": own_project(),
        "cwd": options.cwd,
        "env": dict(options.env),
        "env_secrets": _secrets(options.secrets, ours),
        **_common(options, plan, size),
    }
    return client.start(command, **wanted)


def _start_options(
    options: ForegroundOptions, plan: Plan, surroundings: Surroundings, size: tuple[int, int] | None
) -> StartOptions:
    folder = own_folder() if options.cwd is None else os.path.abspath(options.cwd)
    ours = surroundings.environment
    environment: dict[str, str | None] = dict(ours)
    if options.cwd is not None:
        environment["PWD"] = folder
    secrets = _secrets(options.secrets, environment)
    is_contained = options.backend == DOCKER
    if is_contained:  # PATH and the rest are the image's
        environment = {}
    elif options.profile not in {None, "open"}:  # a variable that was not named is not for it
        # Start-up time: most commands are run without a sandbox.
        from outlive.core.command import listed_environment  # noqa: PLC0415

        environment = dict(listed_environment(ours))
    environment.update(dict(options.env))
    wanted: StartOptions = {
        "title": _title(options),
        "project": own_project() if options.cwd is None else project_root(folder),
        "cwd": folder,
        "env": environment,
        "env_secrets": secrets,
        "inherit_env": is_contained,
        **_common(options, plan, size),
    }
    return wanted


def _common(options: ForegroundOptions, plan: Plan, size: tuple[int, int] | None) -> StartOptions:
    """Return the options of a start that count wherever it runs."""
    wanted: StartOptions = {
        "tags": parse_tags(options.tags),
        "pty": plan.stdio == "pty",
        "merge": plan.stdio == "merge",
        "stdin": "lent" if plan.stdin == "lent" else "none" if plan.stdin == "none" else "pipe",
    }
    wanted |= options.passed  # type: ignore[typeddict-item] # named and typed by the flags of `run`
    if options.limits:
        wanted["limits"] = dict(options.limits)
    if options.is_placed:
        wanted["needs"] = parse_needs(options)
    if plan.stdin in {"typed", "fed"} and plan.stdio == "pty":
        wanted["stdin"] = "none"  # its terminal is its input
    if size is not None:
        wanted["rows"], wanted["cols"] = size
    if not options.is_detached:
        wanted["output_limit"], wanted["on_limit"] = LOG_BYTES, "block"
    return wanted


def _title(options: ForegroundOptions) -> str:
    """Return what lists show: the words as they were typed, not those that we put around them."""
    text = shlex.join(options.argv) if options.line is None else options.line
    text = text if len(text) <= _TITLE else text[:_TITLE] + " …"
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _secrets(names: tuple[str, ...], environment: dict[str, str | None]) -> dict[str, str]:
    """Take variables out of the environment that may be written down."""
    found = {}
    for name in names:
        value = environment.pop(name, None)
        if value is None:
            raise InvalidRequest("invalid_params", f"--secret {name[:40]!r}: there is no such variable here.")
        found[name] = value
    return found


@contextlib.contextmanager
def _lent(client: Client, layout: Layout, process_id: str, descriptors: Sequence[int]) -> Iterator[None]:
    """Hand our stdin and `descriptors` to the keeper while the block starts a process."""
    try:
        keeper = KeeperClient(layout, greets=False)
    except BackendUnavailable:
        client.list(limit=1)  # starts the server, and that the keeper
        keeper = KeeperClient(layout, greets=False, is_served=True)
    with keeper, _packed(descriptors) as packed:
        try:
            keeper.ask({"op": "lend", "id": process_id}, fds=[0, *packed])
        except OutliveError as error:
            if error.code in _KEEPER_GONE:
                raise StartFailed("stdin_lost", error.message) from error
            raise
        yield


@contextlib.contextmanager
def _packed(descriptors: Sequence[int]) -> Iterator[list[int]]:
    """Yield a socket with a packet for each descriptor, as the shim reads it; nothing for no descriptors."""
    if not descriptors:
        yield []
        return
    ours, packed = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sent = 0
    with ours:
        ours.settimeout(0.0)
        for number in descriptors[:_MOST_LENT]:
            with contextlib.suppress(OSError):  # the kernel passes none of its kind, or none of so many
                sent += sockets.send(ours, b"%d" % number, [number])
    if sent < len(descriptors):
        say(f"outlive: the command gets {sent} of the {len(descriptors)} descriptors above 2")
    with packed:
        yield [packed.fileno()]


def _is_bare_script(error: StartFailed, options: ForegroundOptions, command: str | tuple[str, ...]) -> bool:
    return error.code == "start_failed" and _NO_PROGRAM_FORMAT in error.message and command is options.argv


def _path_of(program: str, wanted: StartOptions) -> str:
    path = (wanted.get("env") or {}).get("PATH") or os.defpath
    if "/" in program:
        return program
    import shutil  # noqa: PLC0415 -- start-up time: all compressors come with it, and few commands come here

    return shutil.which(program, path=path) or program
