"""docs/ws-terminal.md says what the door says: every message with its members, every status, programs that
run.
"""

import asyncio
import re
from typing import Any, get_args

import msgspec
import pytest

from outlive.protocols.terminal_messages import ClientMessage, ServerMessage
from outlive.server.error_formats import STATUS
from tests.docs.pages import page
from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import PATIENCE_S, start

_PAGE = page("docs/ws-terminal.md")


@pytest.mark.parametrize("message", [*get_args(ServerMessage), *get_args(ClientMessage)])
def test_every_message_is_there_with_its_members(message: type[Any]) -> None:
    kind = message.__struct_config__.tag
    members = [field.encode_name for field in msgspec.structs.fields(message)]
    (row,) = re.findall(rf"^\| `{kind}` \|(.*?)\|", _PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == members


def test_every_status_is_the_one_of_its_slug() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*?) \|", _PAGE, re.MULTILINE)
    assert rows
    for status, slugs in rows:
        for slug in re.findall(r"`(\w+)`", slugs):
            assert STATUS[slug] == int(status), slug


async def test_the_program_runs(server: OutliveServer, capsys: pytest.CaptureFixture[str]) -> None:
    process_id = start(server, "bash --norc --noprofile -i")
    (program,) = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "docs/ws-terminal.md", "exec"), names)  # noqa: S102 -- every example is executed
    async with asyncio.timeout(PATIENCE_S):
        assert await names["watch"](f"ws://127.0.0.1:{server.port}/ws/terminal/{process_id}") == 3
    assert "hello from here\r\n" in capsys.readouterr().out
