"""Terminals in containers: the seven calls of the tools, and a shell of the image that stays."""

from collections.abc import Iterator

import pytest

from tests.support.server import OutliveServer
from tests.terminals.doors import DOORS, Refused, caller_of

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, docker_host: str) -> Iterator[OutliveServer]:
    """A server whose commands run in containers."""
    folder = tmp_path_factory.mktemp("t")
    (folder / "work").mkdir()
    words = ["--backend", "docker", "--image", "outlive-test", "--docker-workspace", str(folder / "work")]
    with OutliveServer(folder / "state", args=words, env={"DOCKER_HOST": docker_host}) as running:
        yield running


@pytest.mark.parametrize("door", DOORS)
async def test_a_shell_in_a_container_keeps_its_state_and_tells_each_commands_end(
    server: OutliveServer, door: str
) -> None:
    caller = caller_of(door, server)
    terminal = await caller.create(rows=10, cols=50)
    ended = await caller.run(terminal, "cd /tmp; WORD=kept\nfor i in 1 2; do\n echo $i\ndone")
    assert (ended["output"], ended["exit_code"]) == ("1\n2\n", 0)
    ended = await caller.run(terminal, "echo $WORD $PWD; stty size; cat /proc/1/comm; (exit 7)")
    assert (ended["output"], ended["exit_code"]) == ("kept /tmp\n10 50\noutlive-runner\n", 7)
    asked = await caller.run(terminal, "read word; echo got $word", wait_s=1)
    assert not asked["is_complete"]
    await caller.call("write", terminal_id=terminal, text="this\n")
    await caller.ready(terminal)
    assert "got this" in (await caller.call("read", terminal_id=terminal))["text"]
    await caller.call("close", terminal_id=terminal)


async def test_nobody_but_an_administrator_has_a_terminal_outside_of_them(server: OutliveServer) -> None:
    with pytest.raises(Refused, match="profile_too_weak"):
        await caller_of("rest", server).create(backend="local")


async def test_a_shell_that_the_image_does_not_have_is_refused(server: OutliveServer) -> None:
    with pytest.raises(Refused, match="ended at once"):
        await caller_of("rest", server).create(shell="bash")  # noqa: S604 - a parameter's name
