"""`outlive run` inside of a command that outlive runs: refused without a token.

With one as everywhere, and bound no less.
"""

import subprocess
from pathlib import Path

import pytest

from outlive.client import Client
from tests.attacks.attacking import create_token
from tests.support.server import OutliveServer, outlive_command

pytestmark = pytest.mark.walls

_REFUSED = "A process that outlive has started is not let in by its user alone."


def _run(
    server: OutliveServer, *inner: str, outer: tuple[str, ...] = (), stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run `outlive run <inner>` inside of `outlive run <outer>`."""
    here = [*outlive_command(), "run", "--state-dir", str(server.state_dir)]
    return subprocess.run(
        [*here, *outer, "--", *here, *inner], input=stdin, capture_output=True, timeout=60, check=False
    )


def _handed(token: str) -> tuple[str, ...]:
    return ("--env", f"OUTLIVE_TOKEN={token}")


@pytest.mark.promise("A.inside")
def test_a_run_inside_of_a_run_is_refused_and_runs_nothing(besieged: OutliveServer, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for words in (("--", "touch", str(trace)), ("-d", "--", "touch", str(trace)), ("-c", f"touch {trace}")):
        done = _run(besieged, *words)
        assert (done.returncode, done.stdout) == (125, b""), done
        assert _REFUSED in done.stderr.decode()
        assert "outlive run --grant run" in done.stderr.decode()  # the hint
    assert not trace.exists()


@pytest.mark.promise("A.inside", "A.token", "A.owner")
def test_with_a_token_it_is_as_if_outlive_were_not_there_twice(besieged: OutliveServer) -> None:
    token = create_token(besieged, "run", name="nested")
    every = bytes(range(256)) * 300
    done = _run(besieged, "--", "sh", "-c", "cat; echo err >&2; exit 7", outer=_handed(token), stdin=every)
    assert (done.returncode, done.stdout, done.stderr) == (7, every, b"err\n")
    done = _run(besieged, "-c", "echo before; kill -TERM $$", outer=_handed(token))
    assert (done.returncode, done.stdout) == (-15, b"before\n")
    done = _run(besieged, "-d", "--tag", "nest=egg", "--", "true", outer=_handed(token))
    process_id = done.stdout.decode().strip()
    with Client(besieged.state_dir, start_server=False) as ours:
        assert [one.process_id for one in ours.list(tags={"nest": "egg"})] == []  # it is the token's
    with Client(besieged.state_dir, start_server=False, token=token) as theirs:
        (found,) = theirs.list(tags={"nest": "egg"})
        assert found.process_id == process_id


@pytest.mark.promise("A.inside")
def test_a_run_inside_has_no_weaker_profile_whatever_its_token_may_do(besieged: OutliveServer) -> None:
    outer = ("--profile", "guarded", *_handed(create_token(besieged, "admin")))
    show = ("--", "grep", "NoNewPrivs", "/proc/self/status")
    done = _run(besieged, *show, outer=outer)
    assert done.stdout.split() == [b"NoNewPrivs:", b"1"]
    done = _run(besieged, "--profile", "open", *show, outer=outer)
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"weaker than 'guarded'" in done.stderr
