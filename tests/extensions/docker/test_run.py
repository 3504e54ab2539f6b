"""`outlive run` beside a server in Docker mode: the command finds what its shell has set, too."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.comparing import run_words
from tests.extensions.docker.server_house import DockerHouse

pytestmark = pytest.mark.docker


def test_a_signal_is_ignored_there_whatever_our_variables_are_called(
    tmp_path: Path, docker_host: str
) -> None:
    """Where a name is none of a shell's own, our Python sets that, which no container has."""
    with DockerHouse(tmp_path, docker_host) as house:
        words = [*run_words(house.server), "sh", "-c", "kill -HUP $$; echo survived"]
        done = subprocess.run(
            ["nohup", *words],
            cwd=house.workspace,
            env={**os.environ, "a.b": "c"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "survived\n"), done.stderr
