"""`make setup` shows at a terminal what it does and that it goes on, and nothing elsewhere."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT

# Stands for Python and for uv: takes a second at the step whose word is in SLOW, fails at that in BROKEN.
_PROGRAM = """#!/bin/sh
case "$*" in
  *"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/uv" ;;
  *"$SLOW"*) sleep 1.5 ;;
esac
case "$*" in *"$BROKEN"*) echo broken >&2; exit 3 ;; esac
"""


def _set_up(folder: Path, *, at_terminal: bool, broken: str = "nothing") -> tuple[int, str]:
    program = folder / "python"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHON": str(program),
        "VENV": str(folder / "venv"),
    }
    env |= {"SLOW": "pip sync", "BROKEN": broken}
    master, slave = pty.openpty() if at_terminal else os.pipe()
    process = subprocess.Popen([ROOT / "scripts/setup.sh"], env=env, stdin=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    said = b""
    try:
        while data := os.read(master, 4096):
            said += data
    except OSError:  # EIO: the terminal's other side is closed
        pass
    os.close(master)
    return process.wait(30), said.decode()


@pytest.mark.thorough
def test_setup_shows_each_step_and_that_it_goes_on_at_a_terminal_alone(tmp_path: Path) -> None:
    code, said = _set_up(tmp_path, at_terminal=True)
    assert code == 0
    assert re.search(r"setup: installing what outlive needs \.+ [1-9]\d* s", said), said
    assert "setup: installing outlive " in said
    assert _set_up(tmp_path, at_terminal=False) == (0, "")


@pytest.mark.thorough
def test_a_step_of_setup_that_fails_ends_it(tmp_path: Path) -> None:
    for at_terminal in (True, False):
        code, said = _set_up(tmp_path, at_terminal=at_terminal, broken="pip install")
        assert code != 0
        assert "broken" in said
        assert "compiling" not in said
