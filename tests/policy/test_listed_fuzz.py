"""Random lines with assignments, redirections and variables: what the allow list lets pass starts nothing
that is not on it.

Every program on PATH and in the working folder writes its name down; what passes is really run, by bash and
by sh.
"""

import os
import random
import stat
import subprocess
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.policy.command_reader import read_command
from outlive.policy.judgement import CommandPolicy, Verdict
from outlive.policy.patterns import ProgramFile
from outlive.policy.rules import Rule

_LISTED = ("ls", "tick")
_OTHERS = ("evil", "x", "f", "C", "1", "2", "a", "b")
_WORDS = (
    *_LISTED,
    *_LISTED,
    *_LISTED,
    *_OTHERS,
    "-l",
    "'ls'",
    '"ls evil"',
    "''",
    "*",
    "~",
    "{a,b}",
    "#x",
    "!",
    "[",
    "=",
    "$(evil)",
    "`evil`",
    "<(evil)",
)
_VARIABLES = (
    "$V",
    "${V}",
    '"$V"',
    '"a${V}b"',
    "x$V",
    "$V$V",
    "${V:-$(evil)}",
    "${!V}",
    "$((V))",
    "$_",
    "$0",
    "$@",
    "$?",
    '"$(evil)"',
    "$'evil'",
    '$"evil"',
)
_ASSIGNMENTS = (
    "LANG=C",
    "LC_ALL=",
    "TZ=UTC",
    "CI=1",
    "TERM=x",
    "NO_COLOR=1",
    "LANG=evil",
    "PATH=.",
    "IFS=s",
    "BASH_ENV=evil",
    "ENV=evil",
    "LD_PRELOAD=evil",
    "V=evil",
    "LANG=$V",
    "LANG=$(evil)",
    "LANG+=C",
    "LC_ALL='x evil'",
)
_REDIRECTIONS = (
    "2>&1",
    ">&2",
    "> /dev/null",
    ">/dev/null",
    "2>/dev/null",
    "&> /dev/null",
    "&>/dev/null",
    "&>> f",
    "> f",
    ">>f",
    ">|f",
    "< f",
    "<f",
    "<&0",
    ">&f",
    ">& f",
    "2>&1x",
    "2>&",
    "<<< evil",
    "<<evil",
    "<>f",
    "> $V",
    "12>f",
    "> >(evil)",
    "{V}>f",
    "> /dev/tcp/127.0.0.1/9",
)
_OPERATORS = (
    ";",
    "&&",
    "||",
    "|",
    "&",
    " & ",
    " ; ",
    "\n",
    "|&",
    "&;",
    ";;",
    "&|",
    "(",
    ")",
    "{ ",
    " }",
    "!",
)
_VALUES = ("evil", "; evil", "$(evil)", "`evil`", "ls evil", "a[$(evil)]", "-l\nevil", "")


def _line(chance: random.Random) -> str:
    """Return a line that is mostly well formed, with some odd piece in it."""
    commands: list[str] = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        pieces = [
            chance.choice(_ASSIGNMENTS[:6] if chance.random() < 0.8 else _ASSIGNMENTS)
            for _ in range(chance.choice((0, 0, 1, 2)))
        ]
        pieces.append(
            chance.choice(_LISTED) if chance.random() < 0.8 else chance.choice((*_WORDS, *_VARIABLES))
        )
        for _ in range(chance.choice((0, 1, 2, 3))):
            kind = chance.random()
            if kind < 0.4:
                pieces.append(chance.choice(_REDIRECTIONS[:14] if chance.random() < 0.8 else _REDIRECTIONS))
            elif kind < 0.7:
                pieces.append(chance.choice(_VARIABLES[:6] if chance.random() < 0.8 else _VARIABLES))
            else:
                pieces.append(chance.choice(_WORDS))
        commands.append(
            chance.choice((" ", " ", " ", " ", "")).join(pieces)
            if chance.random() < 0.1
            else " ".join(pieces)
        )
    line = commands[0]
    for command in commands[1:]:
        line += chance.choice(_OPERATORS[:7] if chance.random() < 0.8 else _OPERATORS) + command
    return line + chance.choice(("", "", "", ";", "&", " &", "#", "\\"))


class _Ground:
    """Programs that note who was started, and a policy that lets two of them pass."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.here, self.notes = folder / "bin", folder / "here", folder / "notes"
        for made in (self.bin, self.here):
            made.mkdir()
            self._fill(made)
        self.notes.touch()
        self._ours = {str(self.bin / name) for name in _LISTED}
        self._policy = CommandPolicy(allow=(Rule.parse("ls"), Rule.parse("tick ; write = true")))
        self._files: dict[str, ProgramFile | None] = {
            name: ProgramFile(paths=(str(self.bin / name),), identity=(1, place), is_own=True)
            for place, name in enumerate(_LISTED)
        }

    def _fill(self, folder: Path) -> None:
        for path in (folder / name for name in (*_LISTED, *_OTHERS)):
            path.write_text(f"#!/bin/sh\necho {path} >> {self.notes}\n")
            path.chmod(stat.S_IRWXU)

    def lets_pass(self, line: str) -> bool:
        reading = read_command(Command(line=line), {"PATH": str(self.bin)})
        files = {one.argv[0]: self._files.get(one.argv[0]) for one in reading.commands}
        return self._policy.judge(reading, files, self._files).verdict is Verdict.ALLOW

    def strangers(self, line: str, shell: str, value: str) -> set[str]:
        """Really run it; return what was started that is not on the list."""
        for made in self.here.iterdir():  # what the line before has written
            made.unlink()
        self._fill(self.here)
        self.notes.write_text("")
        # The background, too, holds the pipe: its end is the end of all.
        with subprocess.Popen(
            [*shell.split(), "-c", line],
            env={"PATH": str(self.bin), "V": value, "HOME": str(self.here), "IFS": "s;"},
            cwd=self.here,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as running:
            running.communicate(timeout=30)
        return set(self.notes.read_text().split()) - self._ours


def _storm(folder: Path, seed: int, attempts: int) -> tuple[int, list[str]]:
    ground, chance = _Ground(folder), random.Random(seed)
    # It would be noticed.
    assert ground.strangers("ls; ./ls & evil", "/bin/bash --norc", "") == {
        str(ground.here / "ls"),
        str(ground.bin / "evil"),
    }
    passed = 0
    wrong: list[str] = []
    for _ in range(attempts):
        line = _line(chance)
        if not ground.lets_pass(line):
            continue
        passed += 1
        for shell in ("/bin/bash --norc", "/bin/sh"):
            value = chance.choice(_VALUES)
            if found := ground.strangers(line, shell, value):
                wrong.append(f"{shell}: {line!r} with V={value!r} started {found}")
    return passed, wrong


_has_shells = pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="this machine has no bash")


@_has_shells
@pytest.mark.promise("P.only")
def test_no_random_line_starts_what_is_not_on_the_list(tmp_path: Path) -> None:
    passed, wrong = _storm(tmp_path, seed=20, attempts=200)
    assert not wrong, "\n".join(wrong)
    assert passed >= 20  # the lines are no noise


@_has_shells
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.promise("P.only")
def test_of_2500_random_lines_none_starts_what_is_not_on_the_list(tmp_path: Path) -> None:
    seed = int(os.environ.get("STORM_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    passed, wrong = _storm(tmp_path, seed=seed, attempts=2500)
    assert not wrong, "\n".join((f"STORM_SEED={seed}", *wrong))
    assert passed >= 250
    print(f"seed {seed}: {passed} of 2500 lines passed, each run by two shells")
