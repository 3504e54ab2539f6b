"""docs/bridge.md is true: its program works, its tables are what the code has."""

import asyncio
import inspect
import sys
from pathlib import Path

import pytest

from outlive.core.errors import SLUGS
from outlive.extensions.bridge import dialler, door, host, messages
from outlive.extensions.bridge.options import BridgeOptions
from tests.attacks.attacking import ask
from tests.docs.pages import blocks, page, section, table_rows, words
from tests.extensions.bridge.knocking import Door
from tests.support.server import OutliveServer

_TEXT = page("docs/bridge.md")


@pytest.mark.anyio
@pytest.mark.promise("S3.2", "S3.3")
async def test_the_program_of_the_page_is_an_extension(
    bridge: OutliveServer, door: Door, tmp_path: Path
) -> None:
    (program,) = blocks(_TEXT, "python")
    assert "ws://127.0.0.1:3000" in program
    script = tmp_path / "extension.py"
    script.write_text(program.replace("ws://127.0.0.1:3000", bridge.bridge_url))
    process = await asyncio.create_subprocess_exec(sys.executable, str(script))
    try:
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(_extensions, bridge):  # noqa: ASYNC110 -- asked over HTTP
                await asyncio.sleep(0.05)
        made = await door("create", name="Build")
        assert (made["terminal_id"], made["terminal_name"]) == ("t1", "Build")
        done = await door("execute", terminal_id="t1", command="make")
        assert done["output"] == "typed into Build: make"
        await door("close", terminal_id="t1")
    finally:
        process.kill()
        await process.wait()


def _extensions(server: OutliveServer) -> int:
    return int(ask(server.ready["ports"]["bridge"], "GET", "/health").body["extensions"])


def test_every_message_is_on_the_page() -> None:
    part = section(_TEXT, "## The messages")
    told = {name for row in table_rows(part, "from the server") for name in words(row[0])}
    assert told == {"ping", "create_terminal", "execute", "close_terminal"}
    told |= {name for row in table_rows(part, "message") for name in words(row[0])}
    assert {
        name
        for name, made in vars(messages).items()
        if inspect.isfunction(made)
        and inspect.signature(made).return_annotation is bytes
        and not name.startswith("_")
    } - {"failed"} <= told
    heard = {name for row in table_rows(part, "from the extension") for name in words(row[0])}
    assert heard == {"pong", "terminal_created", "success", "error"}
    for kind in heard:
        assert not isinstance(messages.parse_message(f'{{"type":"{kind}","id":"x"}}'), messages.Unknown)


def test_every_error_of_the_page_exists() -> None:
    named = {name for row in table_rows(section(_TEXT, "## Errors"), "slug") for name in words(row[0])}
    assert named <= set(SLUGS)
    assert {slug for slug in SLUGS if slug.startswith("extension_")} <= named


def test_the_numbers_of_the_page_are_the_codes() -> None:
    options = BridgeOptions()
    assert (door.MAX_EXTENSIONS, host.MAX_TERMINALS) == (64, 100)
    assert (options.bridge_ping_s, options.bridge_timeout_s) == (30.0, 30.0)
    assert (host._RETURN_S, dialler._REDIAL_S) == (15.0, 5.0)
    for text in ("64 extensions", "100 terminals", "Every ping (30 s)", "within\n  15 s", "5 s after"):
        assert text in _TEXT, text
