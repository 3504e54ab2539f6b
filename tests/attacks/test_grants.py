"""A command that may call outlive: its token is in memory only, counts in it only, while it runs only, and
gives it no more.
"""

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.client import Client
from tests.attacks.attacking import Requests, create_token
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = pytest.mark.walls

# Asks REST with the token that a file holds, or its own; prints the status and the error's slug.
_ASK = """
import http.client, json, os, sys
port, method, path, file, profile = sys.argv[1:]
token = open(file).read() if file else os.environ.get("OUTLIVE_TOKEN", "")
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
body = json.dumps({"command": "echo inner", "profile": profile or None}) if method == "POST" else None
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + token}
connection.request(method, path, body, headers)
answer = connection.getresponse()
document = json.loads(answer.read())
print(answer.status, document.get("slug") or document.get("error") or document.get("process_id") or "ok", flush=True)
"""  # noqa: E501 -- lines of a table, or of another language


def poll(holds: Callable[[], bool]) -> None:
    """Return once it holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _run(server: OutliveServer, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*outlive_command(), "run", "--state-dir", str(server.state_dir), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _ask(server: OutliveServer, method: str = "POST", *, file: str = "", profile: str = "") -> str:
    port = str(server.ready["ports"]["rest"])
    words = [sys.executable, "-I", "-S", "-c", _ASK, port, method, "/v1/processes", file, profile]
    return shlex.join(words)


@pytest.mark.promise("A.grant")
def test_a_command_with_a_grant_runs_others_and_no_file_and_no_words_hold_its_token(
    besieged: OutliveServer, tmp_path: Path
) -> None:
    kept = tmp_path / "token"
    inner = shlex.join([*outlive_command(), "run", "--tag", "made=inside", "--", "echo", "inner"])
    line = (
        f'{inner}; printf %s "$OUTLIVE_TOKEN" > {kept}; cat /proc/[0-9]*/cmdline > {tmp_path}/words '
        "2>/dev/null; true"
    )
    done = _run(besieged, "--grant", "run", "-c", line)
    assert (done.returncode, done.stdout) == (0, "inner\n"), done
    token = kept.read_bytes()
    assert token.startswith(b"olv_")
    assert token not in (tmp_path / "words").read_bytes()
    for folder, _, names in os.walk(besieged.state_dir):
        for path in (Path(folder, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # the server works on
                assert not path.is_file() or token not in path.read_bytes(), path
    with Client(besieged.state_dir, start_server=False) as person:
        (made,) = person.list(tags={"made": "inside"})  # what it starts is its starter's, who sees it
        assert made.exit_code == 0
    listed = run_outlive("token", "list", "--json", state_dir=besieged.state_dir)
    assert "run-" not in listed.stdout


@pytest.mark.promise("A.grant")
def test_a_granted_token_counts_nowhere_else_and_not_longer_than_its_command(
    besieged: OutliveServer, tmp_path: Path
) -> None:
    kept, gate = tmp_path / "token", tmp_path / "gate"
    mine = Requests(besieged)
    keep = f'printf %s "$OUTLIVE_TOKEN" > {kept}.new; mv {kept}.new {kept}'
    # What it leaves running asks again when its main process has ended.
    ask = _ask(besieged, file=str(kept))
    late = f"until [ -e {gate}.late ]; do sleep 0.05; done; {ask} > {tmp_path}/late; touch {tmp_path}/done"
    (tmp_path / "late.sh").write_text(late)
    line = (
        f"{keep}; setsid -f sh {tmp_path}/late.sh >/dev/null 2>&1; {_ask(besieged)}; until [ -e "
        f"{gate} ]; do sleep 0.05; done"
    )
    started = mine.start(line, grant="run")
    poll(kept.exists)
    outside = Requests(besieged, kept.read_text())("GET", "/v1/processes")
    assert (outside.status, outside.slug) == (401, "token_invalid")
    other = mine.start(ask)
    assert mine.output(other["process_id"]) == "401 token_invalid\n"
    gate.touch()
    assert mine.output(started["process_id"]).startswith("201 ")
    mine("GET", f"/v1/processes/{started['process_id']}/wait?timeout=20")
    Path(f"{gate}.late").touch()
    poll((tmp_path / "done").exists)
    assert (tmp_path / "late").read_text() == "401 token_invalid\n"


@pytest.mark.thorough
@pytest.mark.promise("A.grant")
def test_a_grant_is_never_more_than_its_giver_has_and_does_what_its_scope_says(
    besieged: OutliveServer,
) -> None:
    narrow = Requests(besieged, create_token(besieged, "run"))
    refused = narrow("POST", "/v1/processes", body={"command": "true", "grant": "admin"})
    assert (refused.status, refused.slug) == (403, "scope_missing")
    for text in ("bridge", "hello", "run:0", "run:x", "", "run:1h:2"):
        refused = narrow("POST", "/v1/processes", body={"command": "true", "grant": text})
        assert refused.status in {400, 422}, (text, refused)
    done = _run(besieged, "--grant", "read", "-c", f"{_ask(besieged)}; {_ask(besieged, 'GET')}")
    assert done.stdout == "403 scope_missing\n200 ok\n"
    done = _run(besieged, "--grant", "admin", "--profile", "guarded", "-c", _ask(besieged, profile="open"))
    assert done.stdout == "403 profile_too_weak\n"
    within = shlex.join([*outlive_command(), "run", "--grant", "admin", "--", "true"])
    done = _run(besieged, "--grant", "run", "-c", within)
    assert done.returncode == 125
    assert "more than the caller's own" in done.stderr


@pytest.mark.thorough
@pytest.mark.promise("A.grant")
def test_a_grant_ends_with_its_time_and_outlives_a_killed_server(
    serve: ServerFactory, tmp_path: Path
) -> None:
    server = serve()
    gate, out = tmp_path / "gate", tmp_path / "out"
    again = f"until {_ask(server)} | grep -q 401; do sleep 0.1; done; echo over >> {out}"
    line = (
        f"until [ -e {gate} ]; do sleep 0.05; done; {_ask(server)} > {out}.new; mv {out}.new {out}; {again}"
    )
    timed = Requests(server).start(line, grant="run:20s")
    server.restart()
    gate.touch()
    poll(out.exists)
    assert out.read_text().startswith("201 ")
    page = Requests(server)("GET", f"/v1/processes/{timed['process_id']}/wait?timeout=60")
    assert page.body["exit_code"] == 0
    assert out.read_text().endswith("over\n")


@pytest.mark.promise("A.callbacks")
def test_by_the_operators_setting_every_command_may_call_and_no_more_than_its_starter(
    serve: ServerFactory,
) -> None:
    server = serve("--callbacks", "run")
    mine = Requests(server)
    agent = mine.start(f"{_ask(server)}; {_ask(server, profile='open')}", profile="guarded")
    first, second = mine.output(agent["process_id"]).splitlines()
    assert first.startswith("201 ")
    made = mine("GET", f"/v1/processes/{first.split()[1]}").body
    assert (made["sandbox"]["profile"], made["exit_code"]) == ("guarded", 0)
    assert second == "403 profile_too_weak"
    nested = shlex.join([*outlive_command(), "run", "--state-dir", str(server.state_dir), "-c", _ask(server)])
    assert mine.output(mine.start(nested)["process_id"]).startswith("201 ")  # an agent's agent has its own
    given = mine.start('echo "[$OUTLIVE_TOKEN]"', env={"OUTLIVE_TOKEN": "mine"})
    assert mine.output(given["process_id"]) == "[mine]\n"


@pytest.mark.promise("A.callbacks")
def test_without_the_setting_no_command_has_a_token(besieged: OutliveServer) -> None:
    mine = Requests(besieged)
    started = mine.start(f'echo "[$OUTLIVE_TOKEN]"; {_ask(besieged)}')
    assert mine.output(started["process_id"]) == "[]\n401 inside_process\n"
