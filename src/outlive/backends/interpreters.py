"""Whether a program was started to take commands from a person: a shell, or another program with a prompt of
its own. Pure.

A shell without a script, without `-c` and with a terminal is interactive (POSIX, sh, "Options"), and so are
those interpreters and database clients that took over that rule. Every other program that waits at a terminal
asks something. What cannot be told for certain (an option that is not known here) is not taken for such a
program: a question too much is seen, one too few is not.
"""

import os
import re
from collections.abc import Mapping, Sequence

from outlive.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interpreter:
    """One kind of program.

    `ends`: options that give it something to carry out, or a script. `valued`: options whose value is the
    next word. `operands`: how many other words it may have and still take commands from a person (a database
    client has the name of its database).
    """

    ends: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    operands: int = 0


_SHELL = _Interpreter(
    ends=frozenset({"-c", "-n", "--command"}),
    valued=frozenset({"--init-file", "--rcfile", "--init-command", "-C", "-o", "+o", "-O", "+O"}),
)
_PYTHON = _Interpreter(ends=frozenset({"-c", "-m"}), valued=frozenset({"-W", "-X"}))
_LANGUAGE = _Interpreter(ends=frozenset({"-e", "-p", "-c", "--eval", "--print", "--check"}))
_DATABASE_ENDS = frozenset({"-c", "-f", "-l", "-e", "-batch", "--command", "--file", "--list", "--execute"})
_KINDS: Mapping[str, _Interpreter] = {
    **dict.fromkeys(
        ("sh", "ash", "dash", "bash", "ksh", "mksh", "csh", "tcsh", "zsh", "fish", "nu", "xonsh"), _SHELL
    ),
    **dict.fromkeys(("python", "ipython", "bpython", "ptpython"), _PYTHON),
    **dict.fromkeys(("node", "irb", "lua", "ghci"), _LANGUAGE),
    "sqlite": _Interpreter(ends=_DATABASE_ENDS, operands=1),
    "psql": _Interpreter(
        ends=_DATABASE_ENDS,
        valued=frozenset({"-h", "-p", "-U", "-d", "-v", "--host", "--port", "--username", "--dbname"}),
        operands=2,
    ),
    **dict.fromkeys(
        ("mysql", "mariadb"),
        _Interpreter(ends=_DATABASE_ENDS, valued=frozenset({"-h", "-u", "-P", "-D"}), operands=1),
    ),
}
# python3.13, lua5.4, ksh93: a version belongs to no name.
_VERSION = re.compile(r"[0-9.]+\Z")


def takes_commands(words: Sequence[str]) -> bool:
    """Tell whether the words of a running program (/proc/PID/cmdline) are those of an interpreter at work for
    a person.
    """
    if not words:
        return False
    # A login shell has a hyphen before its name (POSIX, sh; login(1)).
    interpreter = _kind_of(words[0].removeprefix("-"))
    if interpreter is None:
        return False
    rest = list(words[1:])
    # One interpreter may be a script of another: `python /usr/bin/ipython`.
    if rest and not rest[0].startswith("-") and _kind_of(rest[0]) is not None and "/" in rest[0]:
        return takes_commands(rest)
    operands = 0
    while rest:
        word = rest.pop(0)
        if word in interpreter.valued:
            rest = rest[1:]
        elif word.startswith(("-", "+")) and len(word) > 1:
            if _ends(word, interpreter):
                return False
        else:
            operands += 1
    return operands <= interpreter.operands


def _kind_of(path: str) -> _Interpreter | None:
    return _KINDS.get(_VERSION.sub("", os.path.basename(path)))


def _ends(word: str, interpreter: _Interpreter) -> bool:
    """Tell whether an option gives the program its commands: also in a group of letters (`-lc`), or with its
    value (`--command=…`).
    """
    if word.startswith("--"):
        return word.partition("=")[0] in interpreter.ends
    return word in interpreter.ends or any(f"-{letter}" in interpreter.ends for letter in word[1:])
