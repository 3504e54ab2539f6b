"""`outlive run --wait-for`: it returns when the command is ready, and not before."""

import subprocess
from pathlib import Path

import pytest

from outlive.cli.foreground.session import Readiness
from outlive.client import Client, Cursor, InvalidRequest, Output
from tests.cli.comparing import Stage
from tests.support.processes import Gate
from tests.support.server import OutliveServer, free_port


@pytest.fixture
def stage(served: OutliveServer, tmp_path: Path) -> Stage:
    """Where commands run."""
    return Stage(served, tmp_path)


def _run(stage: Stage, argv: list[str], *flags: str) -> subprocess.CompletedProcess[str]:
    words = stage.words(argv, is_bare=False, flags=flags)
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_text_is_found_wherever_reads_cut_it_in_one_stream() -> None:
    for cut in range(2, 6):
        readiness = Readiness("ready")
        first, second = b"xready"[:cut], b"xready"[cut:]
        assert not readiness.is_in(Output("stdout", first, Cursor()))
        assert not readiness.is_in(Output("stderr", second, Cursor()))
        assert readiness.is_in(Output("stdout", second, Cursor()))


@pytest.mark.parametrize("wanted", ["", ":0", ":65536"])
def test_what_cannot_come_is_refused(wanted: str) -> None:
    with pytest.raises(InvalidRequest):
        Readiness(wanted)


@pytest.mark.parametrize("flags", [("-d",), ()], ids=["detached", "foreground"])
def test_it_returns_with_the_text_and_the_command_runs_on(
    stage: Stage, gate: Gate, flags: tuple[str, ...]
) -> None:
    line = f"echo starting; echo it is ready now >&2; {gate.wait}; exit 8"
    done = _run(stage, ["sh", "-c", line], *flags, "--wait-for", "ready now")
    assert done.returncode == 0, done.stderr
    with Client(stage.server.state_dir, start_server=False) as client:
        process = client.get(client.list(active=True, limit=1)[0].process_id)
        if flags:
            assert done.stdout == f"{process.process_id}\n"
        else:
            assert done.stdout == "starting\n"
            assert process.process_id in done.stderr
        gate.open()
        assert process.wait(30).exit_code == 8


@pytest.mark.parametrize("flags", [("-d",), ()], ids=["detached", "foreground"])
def test_it_returns_once_the_command_listens(stage: Stage, flags: tuple[str, ...]) -> None:
    port = free_port()
    program = (
        f"import socket, time; time.sleep(0.3); s = socket.create_server(('127.0.0.1', {port})); "
        "time.sleep(60)"
    )
    done = _run(stage, ["python3", "-c", program], *flags, "--wait-for", f":{port}")
    assert done.returncode == 0, done.stderr
    with Client(stage.server.state_dir, start_server=False) as client:
        process = client.get(client.list(active=True, limit=1)[0].process_id)
        assert port in process.ports()
        process.cancel(0.0)
        assert process.wait(30).is_complete


@pytest.mark.parametrize("wanted", ["never said", ":9"])
@pytest.mark.parametrize(("code", "expected"), [(0, 1), (7, 7)])
def test_one_that_ends_before_has_failed(stage: Stage, wanted: str, code: int, expected: int) -> None:
    done = _run(stage, ["sh", "-c", f"echo words; exit {code}"], "-d", "--wait-for", wanted)
    assert done.returncode == expected
    assert "it ended before" in done.stderr
