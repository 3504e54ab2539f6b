"""How a command is to be run, from what the command line says and what our own descriptors are.

And what a word of `--limit` or `--need` says. Pure.

Named tuples instead of dataclasses: `outlive run` makes these classes at every call, and dataclasses take
eight times as long.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from outlive.cli.parameters import NEED_EXAMPLES, UsageError


class ForegroundOptions(NamedTuple):
    """What the command line of `run` says; times are seconds.

    `argv` is a program and its arguments, `line` a shell line: exactly one of them is there. `passed` are
    options of the start that the server gets as they are, by their names in `client.StartOptions`; only those
    that were given.
    """

    argv: tuple[str, ...] = ()
    line: str | None = None
    is_detached: bool = False
    is_interactive: bool = False
    is_forgotten: bool = False
    pty: bool | None = None
    wait_for: str | None = None
    tags: tuple[str, ...] = ()
    cwd: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    needs: tuple[str, ...] = ()
    same_node_as: str | None = None
    is_spread: bool = False
    is_refused: bool = False
    detach_keys: str = "ctrl-p,ctrl-q"
    as_json: bool = False
    passed: Mapping[str, Any] = MappingProxyType({})

    @property
    def profile(self) -> str | None:
        """Its sandbox; None is the server's default."""
        return self.passed.get("profile")

    @property
    def is_placed(self) -> bool:
        """Whether a machine is chosen for it by what it needs."""
        return bool(self.needs or self.same_node_as or self.is_spread or self.is_refused)

    @property
    def backend(self) -> str | None:
        """Where it runs; None is the server's default."""
        return self.passed.get("backend")


def check_options(options: ForegroundOptions) -> None:
    """Refuse what makes no sense.

    Raises:
        UsageError: No command, or two; JSON where the command's own output goes.
    """
    if bool(options.argv) == (options.line is not None):
        raise UsageError("Pass either -c LINE or a program: `outlive run -- PROGRAM ARGUMENTS`.")
    if options.as_json and not options.is_detached:
        raise UsageError(
            "--json needs --detach: in the foreground stdout is the command's. `outlive inspect --json ID` "
            "answers afterwards."
        )
    if options.is_forgotten and options.is_detached:
        raise UsageError(
            "--rm needs the foreground: here nothing waits for the end of a command that is left. `outlive "
            "wait ID && outlive rm ID` does."
        )


class Descriptors(NamedTuple):
    """What our own standard descriptors are: terminals, and whether stdout and stderr are one and the same
    file.
    """

    is_stdin_terminal: bool
    is_stdout_terminal: bool
    is_one_output: bool


class Plan(NamedTuple):
    """How the command gets its standard streams.

    `stdin`: "lent" (it reads our descriptor itself), "typed" (we read the terminal and write to it), "fed"
    (we read our stdin and write to it: it runs where no descriptor of ours can go), "none".
    """

    stdio: Literal["pipes", "merge", "pty"]
    stdin: Literal["lent", "typed", "fed", "none"]


def plan_run(options: ForegroundOptions, found: Descriptors) -> Plan:
    """Return how to run a command so that it notices as little of us as possible.

    A terminal where stdin and stdout are one; one pipe for both outputs where they go to the same place,
    since only so their order is kept; else a pipe for each.
    """
    if options.is_detached:
        stdio: Literal["pty", "pipes"] = "pty" if options.pty else "pipes"
        # Nothing is fed: its input stays open for `outlive send`.
        return Plan(stdio=stdio, stdin="fed" if options.is_interactive else "none")
    wants_terminal = options.pty
    if wants_terminal is None:
        wants_terminal = found.is_stdin_terminal and found.is_stdout_terminal
    stdin: Literal["lent", "typed"] = "typed" if found.is_stdin_terminal else "lent"
    if wants_terminal:
        return Plan(stdio="pty", stdin=stdin)
    return Plan(stdio="merge" if found.is_one_output else "pipes", stdin=stdin)


def variable(word: str) -> tuple[str, str]:
    """Return a variable's name and value from NAME=VALUE, or from a name of ours, as docker's -e takes it.

    Raises:
        ValueError: It is neither.
    """
    name, equals, value = word.partition("=")
    if not name or not (equals or name in os.environ):
        raise ValueError(f"{word[:60]!r} is not NAME=VALUE")
    return name, value if equals else os.environ[name]


LIMIT_EXAMPLES = "cpu=10m, cpus=1.5, memory=2G, files=256, processes=50"


def limit(word: str) -> tuple[str, float]:
    """Return a bound's name and number from "memory=2G" and the like: bytes, or whole seconds (rounded up).

    Raises:
        ValueError: The word is not of that form, its name is not known, or its value is none.
    """
    # Start-up time: most commands are run without limits, and the parsers come with all of the configuration.
    from outlive.config.options import LIMIT_READERS  # noqa: PLC0415

    name, equals, value = word.partition("=")
    if not equals or name not in LIMIT_READERS:
        names = ", ".join(LIMIT_READERS)
        raise ValueError(
            f"{word[:60]!r}: a limit is NAME=VALUE, and the names are {names}; for instance {LIMIT_EXAMPLES}"
        )
    try:
        return name, LIMIT_READERS[name](value)
    except ValueError as error:
        raise ValueError(f"{word[:60]!r}: {error}, for instance {LIMIT_EXAMPLES}") from None


def need(word: str) -> str:
    """Return a word that says what a command needs.

    Raises:
        ValueError: It is neither an amount nor a label.
    """
    from outlive.config.placement_settings import parse_resources  # noqa: PLC0415 -- as below

    try:
        parse_resources(word)
    except ValueError as error:
        raise ValueError(f"{error}, for instance {NEED_EXAMPLES}") from None
    return word


def parse_needs(wanted: ForegroundOptions) -> Mapping[str, object]:
    """Return what a command needs of its machine, as `execute` takes it."""
    # Start-up time: most commands say nothing of it.
    from outlive.config.placement_settings import parse_resources  # noqa: PLC0415

    found = parse_resources(",".join(wanted.needs))
    members = {
        "cpu": found.cpu,
        "memory": found.memory,
        "gpu": found.gpu,
        "labels": dict(found.labels) or None,
        "same_node_as": wanted.same_node_as,
        "spread": wanted.is_spread or None,
        "wait": False if wanted.is_refused else None,
    }
    return {name: value for name, value in members.items() if value is not None}
