"""SIGKILL at any step of a change leaves the host's file as it was or as it is to be, whole."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.launching import environment
from tests.extensions.hosts.samples import USER_FILES, call, sample

# The interpreter reports each call that touches a file (docs.python.org, "Audit events table"): at the chosen
# one it dies.
_DYING = """
import os, signal, sys
path, steps = sys.argv[1], int(sys.argv[2])
def watch(event, arguments):
    global steps
    is_ours = any(isinstance(one, str) and one.startswith(path) for one in arguments)
    # A mode is set between the opening of a file and its first byte.
    if is_ours or event in {"outlive.written", "os.chmod"}:
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
real_fsync = os.fsync
def fsync(fd):
    sys.audit("outlive.written")  # the new text is there, and the old file still has its name
    real_fsync(fd)
os.fsync = fsync
from outlive.cli.main import main
sys.argv = ["outlive", *sys.argv[3:]]
sys.addaudithook(watch)
main()
"""


@pytest.mark.parametrize("host", ["cursor", "vscode", "codex", "goose"])
def test_a_file_is_the_old_or_the_new_one_whenever_its_writer_is_killed(host: str, tmp_path: Path) -> None:
    old = sample(host)
    path = tmp_path / USER_FILES[host]
    path.parent.mkdir(parents=True)
    path.write_text(old)
    call(tmp_path, "install", host)
    new = path.read_text()
    assert new != old
    killed, seen = 0, set()
    for step in range(50):
        for left in path.parent.iterdir():
            left.unlink()
        path.write_text(old)
        words = [sys.executable, "-c", _DYING, str(path), str(step), "install", host]
        done = subprocess.run(
            words,
            env=environment({"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "CODEX_HOME": ""}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        text = path.read_text()
        assert text in {old, new}, step
        seen.add(text)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
    assert killed >= 4  # reading, the backup, the new file, its change of name
    assert seen == {old, new}
