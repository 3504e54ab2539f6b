"""A terminal that is busy: each door says what to do next in its own words."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio import to_thread

from tests.cli.launching import run
from tests.support.raw import open_raw_websocket
from tests.support.server import OutliveServer
from tests.terminals.doors import Refused, caller_of

pytestmark = pytest.mark.anyio

# What only the caller of another door could follow.
_FOREIGN = {
    "mcp": ("outlive terminal", "/v1/"),
    "rest": ("outlive terminal", "terminal_read", "terminal_write"),
    "cli": ("/v1/", "terminal_read", "terminal_write"),
}
_OWN = {"mcp": "terminal_read", "rest": "GET /v1/terminals/ID/output", "cli": "outlive terminal read"}


@pytest.fixture
def own_home(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of the test's own, which has no terminals yet."""
    with OutliveServer(tmp_path / "state", env={"HOME": str(tmp_path), "SHELL": "/bin/bash"}) as server:
        yield server


@pytest.mark.thorough
@pytest.mark.promise("S3.6.cli")
@pytest.mark.parametrize("door", ["mcp", "rest", "cli"])
async def test_a_busy_terminal_is_refused_in_the_words_of_the_door(
    door: str, own_home: OutliveServer
) -> None:
    caller = caller_of("rest" if door == "cli" else door, own_home)
    terminal_id = await caller.create()
    await caller.run(terminal_id, "read WORD", wait_s=0)
    if door == "cli":
        words = ("terminal", "exec", "--state-dir", str(own_home.state_dir), "-t", terminal_id, "true")
        told = (await to_thread.run_sync(lambda: run(*words))).stderr
    else:
        with pytest.raises(Refused) as caught:
            await caller.run(terminal_id, "true")
        told = caught.value.text
    assert _OWN[door] in told
    assert [word for word in _FOREIGN[door] if word in told] == []
    await caller.call("close", terminal_id=terminal_id)


async def test_a_refused_upgrade_to_a_terminal_is_told_in_the_words_of_http(own_home: OutliveServer) -> None:
    """By the door itself, and by the guard before it."""
    status, hint = await to_thread.run_sync(lambda: _refused(own_home.port, {}))
    assert (status, "GET /v1/" in hint) == (404, True)
    status, hint = await to_thread.run_sync(lambda: _refused(own_home.port, {"X-Forwarded-For": "192.0.2.1"}))
    assert (status, "Send Authorization: Bearer TOKEN" in hint, "OUTLIVE_TOKEN" in hint) == (401, True, False)


def _refused(port: int, headers: dict[str, str]) -> tuple[int, str]:
    """Return status and hint of an upgrade that is refused."""
    peer, head = open_raw_websocket(port, path="/ws/terminal/nope", headers=headers)
    with peer:
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None, head
        body = peer.makefile("rb").read(int(length[1]))
    return int(head.split()[1]), str(json.loads(body)["hint"])
