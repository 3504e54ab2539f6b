"""A person's yes counts for exactly what was shown: not for another command under the same id, or one that
ends like it.
"""

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import websockets

from outlive.client import Client, Output
from tests.attacks.attacking import Requests, create_token
from tests.support.rpc import RpcFailure, connect
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = pytest.mark.thorough

_RULES = {"OUTLIVE_ASK": "touch,env,/bin/sh", "OUTLIVE_POLICY_OPAQUE": "allow"}
_IDS = ("01k9zq3v8d4t6r2m5x7b{}f", "01k9zq3v8d4t6r2m5xzz{}f")
_PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """One server that asks about `touch`."""
    with OutliveServer(tmp_path_factory.mktemp("x") / "state", env=_RULES) as running:
        yield running


@pytest.fixture
def person(asking: OutliveServer) -> Iterator[Client]:
    """A client on the Unix socket, to see what waits and to clean up."""
    with Client(asking.state_dir, start_server=False) as opened:
        yield opened
        for one in opened.approvals():
            opened.deny(one.process_id)


def _ids(letters: str) -> tuple[str, str]:
    """Return two ids with the same last six letters."""
    first, second = (one.format(letters) for one in _IDS)
    assert first[-6:] == second[-6:]
    return first, second


async def _queue(server: OutliveServer, process_id: str, file: Path) -> str:
    async with connect(server.url) as agent:
        asked = await agent.execute(argv=["touch", str(file)], process_id=process_id, detach=True)
        return str(asked["process_id"])


async def _take_back(server: OutliveServer, process_id: str, *, removes: bool = False) -> None:
    async with connect(server.url) as agent:
        await agent.request("control", process_id=process_id, action="CANCEL")
        if removes:
            await agent.request("wait", process_id=process_id, until="closed")
            await agent.request("remove", process_id=process_id)


@pytest.mark.promise("P.exactly")
def test_a_yes_counts_for_no_other_command_whose_id_ends_alike(
    asking: OutliveServer, person: Client, tmp_path: Path
) -> None:
    shown, evil = _ids("aaaaa")
    asyncio.run(_queue(asking, shown, tmp_path / "shown"))
    listed = run_outlive("approvals", state_dir=asking.state_dir).stdout
    yes = next(line for line in listed.splitlines() if line.startswith("yes")).split()[-1]
    asyncio.run(_take_back(asking, shown))
    asyncio.run(_queue(asking, evil, tmp_path / "evil"))
    for name in (shown[-6:], shown, yes):
        done = run_outlive("approve", name, state_dir=asking.state_dir)
        assert done.returncode == 1, (name, done)
    assert [one.process_id for one in person.approvals()] == [evil]
    assert not (tmp_path / "evil").exists()


@pytest.mark.promise("P.exactly")
def test_the_id_of_what_has_waited_names_nothing_else_also_after_a_crash(
    asking: OutliveServer, person: Client, tmp_path: Path
) -> None:
    shown, _ = _ids("bbbbb")
    asyncio.run(_queue(asking, shown, tmp_path / "shown"))
    (waiting,) = person.approvals()
    asyncio.run(_take_back(asking, shown, removes=True))
    with pytest.raises(RpcFailure) as reused:
        asyncio.run(_queue(asking, shown, tmp_path / "evil"))
    assert reused.value.reason == "process_ended"
    asking.restart()
    with pytest.raises(RpcFailure) as reused:
        asyncio.run(_queue(asking, shown, tmp_path / "evil"))
    assert reused.value.reason == "process_ended"
    # Ids of what was removed are forgotten one day, those of what has waited are not.
    asking.kill()
    (asking.state_dir / "waiting" / "removed-ids").unlink()
    asking.start()
    with pytest.raises(RpcFailure) as reused:
        asyncio.run(_queue(asking, shown, tmp_path / "evil"))
    assert reused.value.reason == "invalid_params"
    with Client(asking.state_dir, start_server=False) as again:
        assert again.approvals() == []
    assert waiting.process_id == shown
    assert not (tmp_path / "evil").exists()


@pytest.mark.promise("P.exactly")
async def test_every_door_wants_the_digest_of_what_was_shown(asking: OutliveServer, tmp_path: Path) -> None:
    token = create_token(asking, "admin")
    rest = Requests(asking, token)
    made = rest("POST", "/v1/processes", body={"argv": ["touch", str(tmp_path / "ran")]}).body
    (listed,) = rest("GET", "/v1/approvals").body["approvals"]
    path = f"/v1/approvals/{made['process_id']}/approve"
    other = "0" * 64
    for body in (None, {}, {"digest": listed["digest"][:12]}):
        assert rest("POST", path, body=body).status in {415, 422}
    refused = rest("POST", path, body={"digest": other})
    assert (refused.status, refused.slug) == (409, "approval_changed")
    async with websockets.connect(
        asking.url, additional_headers={"Authorization": f"Bearer {token}"}
    ) as agent:
        await agent.recv()  # connected
        data: dict[str, object] = {}
        for digest, reason in (
            (None, "invalid_params"),
            ("0", "invalid_params"),
            (other, "approval_changed"),
        ):
            given = {} if digest is None else {"digest": digest}
            params = {"process_id": made["process_id"], **given}
            await agent.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "approve", "params": params}))
            data = json.loads(await agent.recv())["error"]["data"]
            assert data["reason"] == reason
        assert data["argv"] == ["touch", str(tmp_path / "ran")]  # what it is
        assert data["digest"] == listed["digest"]
    assert not (tmp_path / "ran").exists()
    assert rest("POST", path, body={"digest": listed["digest"]}).status == 200
    assert rest("GET", f"/v1/processes/{made['process_id']}/wait").body["exit_code"] == 0


def test_what_is_shown_is_whole_or_says_that_it_is_cut_and_values_are_seen_on_demand(
    asking: OutliveServer, person: Client
) -> None:
    """P.exactly: the words, a script, variables; no character of them obeys the terminal."""
    person.start(
        ["touch", "\x1b[2Jx\u202e"], env={"GIT_SSH_COMMAND": "evil", "GONE": None}, profile="guarded"
    )
    person.start(["touch", "y" * 5000])
    person.start(["/bin/sh"], script="#" + "z" * 100_000)
    shown = run_outlive("approvals", state_dir=asking.state_dir).stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"'\x1b[2Jx\u202e'" in shown
    assert "sets     GIT_SSH_COMMAND='****' -GONE" in shown
    assert "evil" not in shown
    assert "profile  guarded" in shown
    assert shown.count("CUT:") == 3  # a long word, a long script, and that the server itself holds more of it
    env = {"OUTLIVE_TOKEN": create_token(asking, "admin")}
    raw = run_outlive("approvals", "--raw", state_dir=asking.state_dir, env=env).stdout
    assert "GIT_SSH_COMMAND='evil'" in raw
    words = [one.argv for one in person.approvals()]
    assert words[1] == ("touch", "y" * 5000)
    script = person.approvals()[2]
    assert script.script is not None
    assert (len(script.script), script.script_bytes) == (65536, 100_001)


@pytest.mark.promise("P.exactly")
def test_from_inside_the_values_of_what_waits_are_seen_by_nobody(
    asking: OutliveServer, person: Client
) -> None:
    person.start(["touch", "/nonexistent/x"], env={"TOKEN_OF_MINE": "a-plain-value"})
    token = create_token(asking, "admin")
    ask = (
        "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]));"
        "c.request('GET', sys.argv[2], headers={'Authorization': 'Bearer ' + sys.argv[3]});"
        "a = c.getresponse(); print(a.status, b'a-plain-value' in a.read())"
    )
    port = str(asking.ready["ports"]["rest"])
    for path, said in (("/v1/approvals", b"200 False\n"), ("/v1/approvals?raw=true", b"403 False\n")):
        inside = person.start([sys.executable, "-I", "-c", ask, port, path, token])
        inside.wait(20)
        assert b"".join(item.data for item in inside.tail().items if isinstance(item, Output)) == said
    shown = Requests(asking, token)("GET", "/v1/approvals?raw=true")
    assert shown.body["approvals"][0]["env"] == {"TOKEN_OF_MINE": "a-plain-value"}


@pytest.mark.promise("P.exactly")
@pytest.mark.parametrize("answer", ["n", "y"])
def test_at_a_terminal_an_id_is_shown_and_asked(
    asking: OutliveServer, person: Client, tmp_path: Path, answer: str
) -> None:
    waiting = person.start(["touch", str(tmp_path / "ran")])
    with _Terminal(asking, "approve", waiting.process_id) as terminal:
        shown = terminal.until(b"[y/N] ")
        assert f"'{tmp_path}/ran'".encode() in shown
        code = terminal.answer(answer)
    assert code == (0 if answer == "y" else 1)
    if answer == "y":
        assert waiting.wait(20).exit_code == 0
    assert (tmp_path / "ran").exists() is (answer == "y")


@pytest.mark.promise("P.exactly")
def test_what_takes_the_place_of_what_a_terminal_shows_is_not_approved(
    asking: OutliveServer, person: Client, tmp_path: Path
) -> None:
    shown, evil = _ids("ccccc")
    asyncio.run(_queue(asking, shown, tmp_path / "shown"))
    with _Terminal(asking, "approve", shown) as terminal:
        terminal.until(b"[y/N] ")
        asyncio.run(_take_back(asking, shown))
        asyncio.run(_queue(asking, evil, tmp_path / "evil"))
        assert terminal.answer("y") == 1
    assert [one.process_id for one in person.approvals()] == [evil]
    assert not (tmp_path / "evil").exists()


class _Terminal:
    """A verb of the command line on a real terminal."""

    def __init__(self, server: OutliveServer, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        command = [*outlive_command(), *words, "--state-dir", str(server.state_dir)]
        self._running: subprocess.Popen[bytes] = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.kill()
        self._running.wait()
        os.close(self._ours)

    def until(self, mark: bytes) -> bytes:
        """Return what was shown up to a mark."""
        seen = b""
        deadline = time.monotonic() + _PATIENCE_S
        while mark not in seen:
            assert select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0], seen
            seen += os.read(self._ours, 65536)
        return seen

    def answer(self, text: str) -> int:
        """Type a line and return the exit code."""
        os.write(self._ours, f"{text}\n".encode())
        return self._running.wait(_PATIENCE_S)
