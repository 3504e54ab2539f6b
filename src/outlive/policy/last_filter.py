"""The filter at the end of a command line (`make 2>&1 | tail -30`): `last_filter`, when it is certain;
`filter_hint`. Pure.

Such a filter loses what stands before it: the rest of the output, and the exit code. What is kept of both
beside it is `engine.commands.unfiltered`'s part, which needs certainty: so `last_filter` says nothing of a
line that the policy's grammar does not understand. The hint may err, and is given for more lines.
"""

import re
from collections.abc import Sequence

from outlive.core.values import dataclass
from outlive.policy.grammar import SimpleCommand, parse_line

# The names that `native/filter/filter_stage.c` answers to.
FILTERS = frozenset({"tail", "head", "grep", "egrep", "fgrep"})
# These would show, replace or bound what is kept beside the line: the shell's table of programs, its
# variables, its EXIT trap (which a limit of file sizes would kill).
_LOOK_INSIDE = frozenset(
    "trap hash type command builtin enable declare typeset local alias unalias compgen eval logout ulimit".split()  # noqa: E501, SIM905 -- cut nowhere better: a table, or another program's text
)
# These list the machine's processes: a copier would be among them.
_LIST_PROCESSES = frozenset(
    "ps pgrep pkill pidof pstree top htop lsof fuser jobs ss netstat killall kill who w ipcs".split()  # noqa: SIM905 -- as above
)
_PATTERN_NAMES = frozenset({"grep", "egrep", "fgrep"})
_WITH_VALUE = frozenset({"-n", "-c", "-e", "-A", "-B", "-C", "-m"})
_HINTED = re.compile(r"(?<!\|)\|&?\s*((tail|head|grep|egrep|fgrep|rg)(?:\s[^\n]*)?)\Z")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|\\.""")
_GOES_ON = re.compile(r"[;&|)`]")
_MOST_SHOWN = 60  # characters of the filter in a hint


@dataclass(frozen=True, slots=True, kw_only=True)
class LastFilter:
    """The last command of a line, which filters what the one before it writes.

    `stages` are the commands of its pipeline, itself included. `is_only` says that no other pipeline of the
    line has as many: then so many exit codes are this one's. `may_copy` is False where a process more could
    be seen by the line itself.
    """

    name: str
    stages: int
    is_only: bool
    may_copy: bool


def last_filter(line: str) -> LastFilter | None:
    """Return the filter at the end of a line; None when there is none, or when it is not certain."""
    commands = parse_line(line)
    if commands is None or len(commands) < 2 or line.rstrip().endswith("&"):
        return None
    last = commands[-1]
    if last.joint != "|" or last.writes or last.argv[0] not in FILTERS or not _reads_input(last):
        return None
    words = {command.argv[0].rpartition("/")[2] for command in commands}
    if words & _LOOK_INSIDE or any(map(_shows_variables, commands)):
        return None
    lengths = _lengths(commands)
    return LastFilter(
        name=last.argv[0],
        stages=lengths[-1],
        is_only=lengths.count(lengths[-1]) == 1,
        may_copy=not words & _LIST_PROCESSES,
    )


def filter_hint(line: str) -> str | None:
    """Return what a final filter hides, and what to do instead, in a few words for a model; None for a line
    without one.
    """
    found = _HINTED.search(line.rstrip().rstrip(";").rstrip())
    commands = parse_line(line)
    if found is None or (commands is not None and commands[-1].joint != "|"):
        return None
    if commands is None and _GOES_ON.search(_QUOTED.sub("", found[1])):
        return None  # another command stands behind it, and the exit code is that one's
    shown = found[1] if len(found[1]) <= _MOST_SHOWN else f"{found[1][:_MOST_SHOWN]}…"
    code = "" if "pipefail" in line else "the exit code and "
    # Few words: it stands in each answer about such a line, and every later turn reads it again.
    return (
        f"`| {shown}` hides {code}the rest of the output before it: leave it out, long output is "
        "shortened anyway"
    )


def _reads_input(command: SimpleCommand) -> bool:
    """Return whether a filter reads what is piped into it, as far as its words tell: no file is named."""
    if not command.is_literal and command.argv[0] not in _PATTERN_NAMES:
        return False  # a pattern may become a file
    operands: list[str] = []
    has_pattern = False
    words = iter(command.argv[1:])
    for word in words:
        if word.startswith("-") and word != "-":
            has_pattern |= word.startswith(("-e", "-f", "--regexp", "--file"))
            if word in _WITH_VALUE:
                next(words, None)
        elif not (command.argv[0] == "tail" and word.startswith("+")):
            operands.append(word)
    allowed = 1 if command.argv[0] in _PATTERN_NAMES and not has_pattern else 0
    return len([word for word in operands if word != "-"]) <= allowed


def _shows_variables(command: SimpleCommand) -> bool:
    """Return whether a builtin would list the shell's variables (`_` is another one), or print what the EXIT
    trap reads.
    """
    first, *words = command.argv
    if first in {"export", "readonly"}:
        return all(word.startswith("-") for word in words)
    return first == "set" and (
        not words or any(one == "verbose" or re.match(r"[-+]\w*v", one) for one in words)
    )


def _lengths(commands: Sequence[SimpleCommand]) -> list[int]:
    """Return how many stages each pipeline of a line has."""
    lengths: list[int] = []
    for command in commands:
        if command.joint == "|":
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths
