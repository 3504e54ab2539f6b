"""Random commands in one terminal give what bash gives them without one: output and exit code, one after the
other.
"""

import asyncio
import random
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.terminals.shells import Desk, needs

_WORDS = [
    "a",
    "'b c'",
    '"$HOME"',
    "é",
    "😀",
    "$((1+2))",
    "'\t'",
    "\\$",
    "'$ '",
    "x\\\ny",
    "%d",
    "'#'",
    "!",
    '"it\'s"',
    "~",
    "{1..3}",
]
_PLAIN = [
    "echo {w}",
    "printf '%s|' {w} {w}; echo",
    "(exit {n})",
    "true {w} && echo {w}",
    "false || (exit {n})",
    "seq 1 {n}",
    'for i in {w} {w}\ndo\n\techo "$i"\ndone',
    'cat <<EOF\n{w}\n\t{w} "\nEOF',
    "cat <<'EOF' | sort\nb\na\nEOF",
    "if false; then\n  echo {w}\nelse\n  (exit {n})\nfi",
    "echo one\necho {w}\n(exit {n})",
    'f() {{\n  echo "f $1"\n  return {n}\n}}\nf {w}',
    "echo {w} >&2",
    "printf 'no newline'",
    "printf '\\033]133;D;{n}\\007\\033[1mbold\\033[0m\\n'",
    "# only {n}\n(exit {n})",
    "case {w} in\n  a) echo A ;;\n  *) (exit {n}) ;;\nesac",
    'x={w}; echo "${{x}}"',
    "echo $(echo {w}; echo {n})",
    "[ -d / ] ; echo $?",
    "yes {w} | head -{n}",
]


def _command(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randint(1, 3)):
        shape = chance.choice(_PLAIN)
        while "{w}" in shape:
            shape = shape.replace("{w}", chance.choice(_WORDS).replace("{", "{{").replace("}", "}}"), 1)
        parts.append(shape.format(n=chance.randint(0, 120)))
    return "\n".join(parts)


def _expected(command: str, home: Path) -> tuple[str, int]:
    ran = subprocess.run(
        ["bash", "-c", command],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=20,
    )
    text = ran.stdout.decode()
    for sequence in ("\x1b[1m", "\x1b[0m"):
        text = text.replace(sequence, "")
    while "\x1b]133;D;" in text:
        begin = text.index("\x1b]133;D;")
        text = text[:begin] + text[text.index("\x07", begin) + 1 :]
    return text, ran.returncode


@pytest.mark.thorough
@pytest.mark.promise("S3.7.lines")
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_commands_give_what_bash_gives(desk: Desk, tmp_path: Path, seed: int) -> None:
    needs("bash")
    chance = random.Random(seed)
    terminal = await desk.open()
    await desk.run(terminal, f"cd {shlex.quote(str(tmp_path))}")
    for number in range(60):
        command = _command(chance)
        output, code = await asyncio.to_thread(_expected, command, tmp_path)
        gave = await desk.run(terminal, command)
        assert (gave.output, gave.exit_code) == (output, code), (number, command)
