"""The example client and its three patterns, run as a user would: as a program of their own."""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from tests.support.processes import Gate, Marker, wait_file
from tests.support.server import OutliveServer

_EXAMPLE = Path(__file__).parents[2] / "examples" / "jsonrpc_client.py"


@asynccontextmanager
async def _example(server: OutliveServer, *words: str) -> AsyncIterator[Process]:
    command = [sys.executable, "-u", str(_EXAMPLE), "--url", server.url, *words]
    async with await anyio.open_process(command) as process:
        try:
            with anyio.fail_after(45):
                yield process
        finally:
            if process.returncode is None:
                process.kill()


async def _until_text(process: Process, pattern: str) -> str:
    """Read the program's output until the pattern occurs; return all of it."""
    assert process.stdout is not None
    text = ""
    async for piece in TextReceiveStream(process.stdout):
        text += piece
        if re.search(pattern, text):
            break
    return text


async def _to_the_end(server: OutliveServer, *words: str) -> tuple[str, int]:
    async with _example(server, *words) as process:
        return await _until_text(process, r"(?!)"), await process.wait()


@pytest.mark.promise("S0.18")
async def test_the_documents_client_program_runs_as_it_stands(server: OutliveServer, tmp_path: Path) -> None:
    """S0.18: the messages and reads of the document; a stand-in for claude lies on the PATH."""
    claude = tmp_path / "claude"
    claude.write_text('#!/bin/sh\necho "$@"\nprintf "Old pond\\nA frog leaps in\\n"\necho "note" >&2\n')
    claude.chmod(0o755)
    text, code = await _to_the_end(server, "--path", str(tmp_path))
    assert code == 0
    assert re.search(r"^Process started: PID \d+$", text, re.MULTILINE)
    assert "The command is initializing...\n" in text
    assert "--print Write a haiku\n" in text
    assert "Old pond\nA frog leaps in\n" in text
    assert "note\n" in text
    assert text.endswith("The command success with exit code 0\n")


@pytest.mark.promise("S0.18", "S0.9")
async def test_the_client_program_reports_a_failure(server: OutliveServer) -> None:
    """S0.18: a non-zero exit code is told and passed on."""
    text, code = await _to_the_end(server, "echo before; exit 42")
    assert text.endswith("before\n\nThe command failed with exit code 42\n")
    assert code == 42


@pytest.mark.promise("S0.18.timeout")
async def test_the_timeout_pattern_cancels_what_takes_too_long(server: OutliveServer, marker: Marker) -> None:
    """S0.18: pattern 1, wait up to a deadline and then CANCEL."""
    text, code = await _to_the_end(
        server, "--pattern", "timeout", "--seconds", "0.5", f"echo begun; {marker.sleep}; true"
    )
    assert "Timeout after 0.5 s: cancelling\n" in text
    assert "begun\n" in text
    assert text.endswith("The command failed with exit code -15\n")
    assert code == 1
    assert marker.pids() == []


@pytest.mark.promise("S0.18.timeout")
async def test_the_timeout_pattern_leaves_a_quick_command_alone(server: OutliveServer) -> None:
    """S0.18: pattern 1 on a command that is done in time."""
    text, code = await _to_the_end(server, "--pattern", "timeout", "--seconds", "30", "echo quick")
    assert (text, code) == ("quick\n\nThe command completed with exit code 0\n", 0)


@pytest.mark.promise("S0.18.silence")
async def test_the_progress_pattern_gives_up_on_silence(server: OutliveServer, marker: Marker) -> None:
    """S0.18: pattern 2, no output for too long (120 s in the document): warn, then CANCEL."""
    text, code = await _to_the_end(
        server, "--pattern", "progress", "--seconds", "0.5", f"echo one; echo two; {marker.sleep}; true"
    )
    assert text.startswith("one\ntwo\nWarning: No output for 0.5 s")
    assert code == 1
    assert marker.pids() == []


@pytest.mark.thorough
@pytest.mark.promise("S0.18.silence")
async def test_the_progress_pattern_does_not_disturb_a_talkative_command(server: OutliveServer) -> None:
    """S0.18: pattern 2 on a command that takes longer than the patience, but is never silent for so long."""
    command = "for n in $(seq 1 30); do echo $n; sleep 0.05; done"
    text, code = await _to_the_end(server, "--pattern", "progress", "--seconds", "1.2", command)
    assert "Warning" not in text
    assert text.startswith("1\n2\n3\n")
    assert code == 0


@pytest.mark.promise("S0.18.reconnect", "S0.14.resume")
async def test_the_resilient_pattern_survives_a_killed_server(own_server: OutliveServer, gate: Gate) -> None:
    """S0.18: pattern 3, the server is killed and started again: reconnect, every line once, one start."""
    started = own_server.state_dir.with_name("started")
    command = f"echo $$ >> '{started}'; seq 1 500; {gate.wait}; seq 501 1000"
    async with _example(own_server, "--pattern", "resilient", command) as process:
        await wait_file(started)
        await to_thread.run_sync(own_server.restart)
        text = await _until_text(process, "Reconnected")
        gate.open()
        text += await _until_text(process, r"(?!)")
        assert await process.wait() == 0, text[-1500:]
    numbers = [int(line) for line in text.splitlines() if line.isdigit()]
    assert numbers == list(range(1, 1001))
    assert len(started.read_text().split()) == 1
