"""The doors of the documents: each streams from wherever the server's commands run."""

import json
import os
import re
import subprocess

import pytest

from outlive.client import Output
from tests.contract.places import Asker, Place
from tests.extensions.fleet.pairs import PATIENCE_S, wait_until
from tests.mcp_http.raw_caller import BACKGROUND, RawCaller
from tests.mcp_http.raw_caller import events_of as mcp_events_of
from tests.rest.rest_caller import RestCaller, events_of
from tests.support.processes import Marker
from tests.support.rpc import connect
from tests.support.server import outlive_command


def _gate(place: Place, name: str) -> str:
    """Return a shell line that waits for a file which is not there yet."""
    (place.folder / name).unlink(missing_ok=True)
    return f"until [ -e {place.folder / name} ]; do sleep .02; done"


@pytest.mark.promise("S4.12.docker")
def test_the_event_stream_of_mcp_is_live(place: Place) -> None:
    """Document 004's events, in Docker mode, too: its own "not yet"."""
    caller = RawCaller.begin(place.near.mcp_url)
    line = f"cd {place.folder}; echo one; echo two >&2; {_gate(place, 'go-sse')}; printf last; exit 0"
    with caller.stream(BACKGROUND, 3, cmd=line) as response:
        events = mcp_events_of(response)
        assert next(events)[1]["request_id"] == "3"
        assert sorted(next(events) for _ in range(2)) == [
            ("stderr", {"content": "two"}),
            ("stdout", {"content": "one"}),
        ]
        (place.folder / "go-sse").touch()
        rest = list(events)
    assert rest[0] == ("stdout", {"content": "last"})
    assert rest[-1][1]["result"] == {
        "content": [{"type": "text", "text": "one\nlast\n\nSTDERR:\ntwo"}],
        "isError": False,
    }


@pytest.mark.promise("S4.12.docker")
def test_mcp_terminates_and_lists_by_pid(place: Place, marker: Marker) -> None:
    """The documents' tools know it by the pid that this machine has for it."""
    caller = RawCaller.begin(place.near.mcp_url)
    with caller.stream(BACKGROUND, 7, cmd=f"{marker.sleep} & {marker.sleep}; wait") as response:
        events = mcp_events_of(response)
        pid = next(events)[1]["pid"]
        wait_until(lambda: len(marker.pids()) == 2)
        assert str(pid) in caller.call("list_processes").text
        text = caller.call("terminate_process", pid=pid).text
        assert text.startswith(f"Process {pid} terminated successfully")
        result = list(events)[-1][1]["result"]
    assert result["isError"]
    assert result["content"][0]["text"].startswith("[Process was terminated]")
    wait_until(lambda: not marker.pids())


def test_the_lean_tools_of_mcp_run_there(place: Place) -> None:
    """`run` with a bound of waiting, then `wait`."""
    caller = RawCaller.begin(place.near.mcp_url)
    answer = caller.call("run", command="echo hello; exit 3", cwd=str(place.folder))
    assert re.fullmatch(r"\[(p\d+ )?exit 3(, sandbox \w+)?(, on \w+)?\]\nhello", answer.text), answer.text
    shell = caller.call("execute_linux_shell_command", cmd="echo out; echo err >&2; exit 4")
    assert (shell.text, shell.json["result"]["isError"]) == ("[exit code 4]\nout\n\nSTDERR:\nerr", True)


def test_rest_follows_live(place: Place) -> None:
    """Server-sent events with their places, and the documents' own paths."""
    rest = RestCaller(place.near.rest_url)
    process = rest.start(
        f"echo one; echo err >&2; {_gate(place, 'go-rest')}; printf two; exit 3", cwd=str(place.folder)
    )
    with rest.stream(f"/v1/processes/{process['process_id']}/follow") as response:
        stream = events_of(response)
        first = [next(stream), next(stream)]
        (place.folder / "go-rest").touch()
        events = [*first, *stream]
    assert [event.name for event in events] == ["output"] * 3 + ["completed", "closed"]
    assert events[2].place == "7.4"
    assert events[3].data["exit_code"] == 3
    answer = rest.call("POST", "/api/sync/execute/", {"command": "echo sync; exit 2"})
    assert "sync" in json.dumps(answer.json)


async def test_json_rpc_streams_and_controls(place: Place) -> None:
    """Document 000: execute, output, pause, resume, cancel, completed."""
    async with connect(place.near.url) as client:
        run = await client.run("echo one; echo two >&2; exit 5", cwd=str(place.folder))
        assert (run.exit_code, run.stdout, run.stderr) == (5, "one\n", "two\n")


def test_the_command_line_runs_there(place: Place) -> None:
    """`outlive run`: streams apart, the exit code its own; 127 and 126 as a shell has them."""

    def run(*words: str) -> tuple[int, bytes, bytes]:
        command = [
            *outlive_command(),
            "run",
            "--state-dir",
            str(place.near.state_dir),
            "--cwd",
            str(place.folder),
        ]
        command += place.words
        ran = subprocess.run(
            [*command, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False
        )
        return ran.returncode, ran.stdout, ran.stderr

    assert run("-c", "printf 'a\\377'; echo err >&2; exit 9") == (9, b"a\xff", b"err\n")
    assert run("--", "no-such-program-at-all")[0] == 127
    assert run("--", "/usr")[0] == 126
    assert run("-c", "kill -TERM $$")[0] == -15  # it dies the same death
    assert run("--timeout", "0.3", "-c", "sleep 300")[0] == 124


def test_the_command_line_gives_its_variables_to_this_machine_only(place: Place) -> None:
    """A container's are its image's, a node's are its own; what `--env` says goes everywhere."""
    ran = subprocess.run(
        [
            *(
                *outlive_command(),
                "run",
                "--state-dir",
                str(place.near.state_dir),
                "--cwd",
                str(place.folder),
            ),
            *(*place.words, "--env", "GIVEN=1", "--", "env"),
        ],
        env={**os.environ, "OF_THE_CALLER": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    found = ran.stdout.splitlines()
    assert b"GIVEN=1" in found
    assert (b"OF_THE_CALLER=1" in found) == (place.name == "local")


def test_output_is_shown_by_logs_and_by_the_client_alike(asker: Asker) -> None:
    """`outlive logs` reads the same log."""
    process = asker.start("seq 1 2000; exit 3")
    process.wait(PATIENCE_S, until="closed")
    shown = subprocess.run(
        [*outlive_command(), "logs", process.process_id, "--state-dir", str(asker.place.near.state_dir)],
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    ).stdout
    read = b"".join(item.data for item in process.follow() if isinstance(item, Output))
    assert shown == read == b"".join(b"%d\n" % i for i in range(1, 2001))
