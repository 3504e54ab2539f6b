"""`outlive --host URL`: the verbs of the command line on another server, and `--backend` on a node of one's
own.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from outlive.client import Client
from tests.extensions.fleet.pairs import PATIENCE_S, Pair, a_token, wait_until
from tests.support.server import OutliveServer, outlive_command

pytestmark = pytest.mark.thorough


class _Far:
    """The command line with a host."""

    def __init__(self, server: OutliveServer, token_file: Path) -> None:
        self.token = token_file.read_text()
        self._flags = ["--host", f"http://127.0.0.1:{server.port}", "--token-file", str(token_file)]
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
        self._env["OUTLIVE_STATE_DIR"] = "/nonexistent/nothing-of-this-machine"

    def __call__(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [*outlive_command(), *self._flags, *words]
        return subprocess.run(
            command, env=self._env, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
        )


@pytest.fixture
def far_cli(pair: Pair, tmp_path: Path) -> _Far:
    path = tmp_path / "token"
    path.write_text(a_token(pair.far, f"cli-{os.urandom(4).hex()}"))
    return _Far(pair.far, path)


def test_run_brings_streams_input_and_exit_code(far_cli: _Far) -> None:
    """In the foreground as ever; the working folder is the server's own."""
    ran = far_cli("run", "-c", "cat; echo err >&2; exit 9", stdin=b"x" * 200_000 + b"\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (9, b"x" * 200_000 + b"\n", b"err\n")
    ran = far_cli("run", "--env", "A=b", "--cwd", "/usr", "--", "sh", "-c", "echo $A $PWD")
    assert ran.stdout == b"b /usr\n"


def test_the_verbs_work_on_the_other_server(far_cli: _Far, tmp_path: Path) -> None:
    """Start, list, look, read, search, write, wait, control, remove."""
    gate = tmp_path / "gate"
    line = f"seq 1 5; until [ -e {gate} ]; do sleep .05; done; echo last"
    name = far_cli("run", "-d", "-c", line).stdout.decode().strip()
    listed = json.loads(far_cli("ps", "--json").stdout)
    assert name in json.dumps(listed)
    assert name.encode() in far_cli("inspect", name).stdout
    far_cli("pause", name)
    assert b"paused" in far_cli("inspect", name).stdout
    far_cli("resume", name)
    gate.touch()
    done = far_cli("wait", name)
    assert done.returncode == 0, done.stderr
    assert far_cli("logs", name).stdout == b"1\n2\n3\n4\n5\nlast\n"
    assert far_cli("logs", "--tail", "2", name).stdout == b"5\nlast\n"
    assert far_cli("logs", "--grep", "as", name).stdout == b"last\n"
    assert far_cli("logs", "--grep", "no such", name).returncode == 1
    assert far_cli("search", "as", name).stdout.endswith(b": last\n")
    assert b": last\n" in far_cli("search", "last").stdout
    assert far_cli("search", "no such", name).returncode == 1
    assert far_cli("logs", "--follow", name).stdout == b"1\n2\n3\n4\n5\nlast\n"
    assert far_cli("rm", name).returncode == 0
    assert name not in json.dumps(json.loads(far_cli("ps", "--all", "--json").stdout))


def test_services_of_the_other_server_are_restarted_by_name(
    pair: Pair, far_cli: _Far, tmp_path: Path
) -> None:
    """Where only one folder there has them; what a process was started with lies on that machine."""
    with Client(url=f"ws://127.0.0.1:{pair.far.port}/ws/mcp", token=far_cli.token) as client:
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir()
            services = {"both": {"command": "exec sleep 60"}, f"only-{folder}": {"command": "exec sleep 60"}}
            client.services.up(str(tmp_path / folder), services)
        assert far_cli("restart", "only-a").stdout == b"only-a  is ready\n"
        refused = far_cli("restart", "both")
        assert (refused.returncode, str(tmp_path / "b").encode() in refused.stderr) == (1, True)
        assert b"on the other machine" in far_cli("restart", "p1").stderr
        for folder in ("a", "b"):
            client.services.down(str(tmp_path / folder), grace_s=0)


def test_attach_shows_the_last_lines_and_the_end(far_cli: _Far) -> None:
    """What follows comes, too, with the exit code."""
    name = far_cli("run", "-d", "-c", "seq 1 30; sleep .4; echo over; exit 3").stdout.decode().strip()
    attached = far_cli("attach", name)
    assert attached.returncode == 3, attached.stderr
    assert attached.stdout.endswith(b"30\nover\n")


@pytest.mark.parametrize("verb", [["keeper", "status"], ["token", "list"], ["doctor"], ["audit", "verify"]])
def test_verbs_of_this_machine_say_so(far_cli: _Far, verb: list[str]) -> None:
    """They read files here."""
    refused = far_cli(*verb)
    assert refused.returncode == 1
    assert b"this machine only" in refused.stderr


def test_an_address_that_is_none_is_refused(far_cli: _Far) -> None:
    """In one sentence."""
    env = {**os.environ, "OUTLIVE_HOST": "ftp://nowhere"}
    refused = subprocess.run(
        [*outlive_command(), "ps"], env=env, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert refused.returncode == 1
    assert b"OUTLIVE_HOST" in refused.stderr


def test_run_on_a_node_feeds_it_and_ends_as_it_did(pair: Pair) -> None:
    """`outlive run --backend`, with input from a pipe."""
    words = [*outlive_command(), "run", "--backend", "far", "--state-dir", str(pair.near.state_dir)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
    ran = subprocess.run(
        [*words, "-c", "wc -c; echo $OUTLIVE_STATE_DIR; exit 6"],
        env=env,
        input=b"y" * 100_000,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 6, ran.stderr
    assert ran.stdout.split() == [b"100000", str(pair.far.state_dir).encode()]


def test_doctor_tells_of_the_nodes(own_pair: Pair) -> None:
    """Connected, and why not."""
    words = [*outlive_command(), "doctor", "--json", "--state-dir", str(own_pair.near.state_dir)]

    def told() -> dict[str, object]:
        document = json.loads(subprocess.run(words, capture_output=True, check=False).stdout)
        return next(one for one in document["checks"] if one["name"] == "node far")

    assert told()["ok"] is True
    own_pair.proxy.cut()
    own_pair.away()
    assert told()["ok"] is False
    with own_pair.client() as client:
        assert isinstance(client, Client)
    own_pair.proxy.heal()
    wait_until(lambda: told()["ok"])
