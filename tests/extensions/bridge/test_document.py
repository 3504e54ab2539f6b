"""The document's messages and scenarios, each in both directions, against an extension that does just what it
says.
"""

import asyncio
import re
import socket
from pathlib import Path

import pytest

from tests.attacks.attacking import ask
from tests.extensions.bridge.extension import DocumentExtension, Message, dialling
from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.processes import poll_until
from tests.support.server import OutliveServer, run_outlive

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


@pytest.mark.promise("S3.1", "S3.2", "S3.3", "S3.5")
async def test_scenario_1_creates_a_terminal_and_executes_a_command(
    bridge: OutliveServer, door: Door
) -> None:
    async with dialling(bridge.bridge_url) as extension:
        made = await door("create", name="Build Terminal")
        done = await door("execute", terminal_id=made["terminal_id"], command="npm run build")
        assert extension.executed == [(made["terminal_id"], "npm run build")]
        create, execute = [one for one in extension.received if one["type"] != "ping"]
        await door("close", terminal_id=made["terminal_id"])
    assert create == {
        "type": "create_terminal",
        "id": create["id"],
        "data": {"terminalName": "Build Terminal"},
    }
    assert made["terminal_id"] == create["id"], "the extension calls the terminal so"
    assert (made["terminal_name"], made["target"], made["state"]) == ("Build Terminal", "vscode", "unknown")
    data = {"command": "npm run build", "terminalId": create["id"]}
    assert execute == {"type": "execute", "id": execute["id"], "data": data}
    assert execute["id"] != create["id"]
    assert done["output"].startswith("Command executed: npm run build\nNote: ")
    assert (done["exit_code"], done["cursor"], done["is_complete"]) == (None, None, True)


@pytest.mark.promise("S3.2", "S3.3")
async def test_scenario_2_an_error_is_told(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as extension:
        made = await door("create")
        extension.terminals.clear()  # its user has closed it
        refused = await door.refusal("close", terminal_id=made["terminal_id"])
        assert refused.code == "extension_failed"
        assert f"Terminal {made['terminal_id']} not found" in refused.message
        assert await door.vscode() == [], "nobody can close it a second time"


@pytest.mark.promise("S3.2", "S3.3")
async def test_a_terminal_is_closed(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as extension:
        made = await door("create")
        assert await door.vscode() == [made["terminal_id"]]
        await door("close", terminal_id=made["terminal_id"])
        assert extension.terminals == {}
        last = extension.received[-1]
        assert last == {
            "type": "close_terminal",
            "id": last["id"],
            "data": {"terminalId": made["terminal_id"]},
        }
        assert (await door.refusal("execute", terminal_id=made["terminal_id"], command="date")).code == (
            "terminal_not_found"
        )
        assert extension.executed == []


@pytest.mark.promise("S3.4", "S3.2")
async def test_pings_come_regularly_with_ids_of_their_own(own_bridge: OutliveServer) -> None:
    async with dialling(own_bridge.bridge_url) as extension:
        await extension.until(lambda: len(extension.received) >= 4)
        assert extension.connections == 1
    assert all(one == {"type": "ping", "id": one["id"]} for one in extension.received)
    assert len({one["id"] for one in extension.received}) == len(extension.received)


@pytest.mark.promise("S3.6")
async def test_terminals_without_a_name_are_counted(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as extension:
        made = await asyncio.gather(*(door("create") for _ in range(3)))
        assert sorted(one["terminal_name"] for one in made) == [f"MCP Terminal {n}" for n in (1, 2, 3)]
        await door(
            "close", terminal_id=next(one["terminal_id"] for one in made if one["terminal_name"][-1] == "2")
        )
        assert (await door("create"))["terminal_name"] == "MCP Terminal 2"
        assert sorted(extension.terminals.values()) == [f"MCP Terminal {n}" for n in (1, 2, 3)]


class _Namer(DocumentExtension):
    """An extension that gives its terminals ids of its own, as the document's field table allows."""

    def answers(self, message: Message) -> list[str]:
        frames = super().answers(message)
        if message["type"] == "create_terminal":
            self.terminals["terminal-1"] = self.terminals.pop(message["id"])
            return [
                frame.replace(f'"terminalId": "{message["id"]}"', '"terminalId": "terminal-1"')
                for frame in frames
            ]
        return frames


@pytest.mark.promise("S3.5")
async def test_what_the_extension_calls_a_terminal_is_what_counts(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url, _Namer()) as extension:
        made = await door("create")
        assert made["terminal_id"] == "terminal-1"
        await door("execute", terminal_id="terminal-1", command="date")
        assert extension.executed == [("terminal-1", "date")]


@pytest.mark.promise("S3.5")
async def test_two_windows_that_count_alike_are_told_apart(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url, _Namer()) as first:
        one = await door("create")
        async with dialling(bridge.bridge_url, _Namer()) as second:
            two = await door("create")
            assert one["terminal_id"] != two["terminal_id"]
            await door("execute", terminal_id=one["terminal_id"], command="first")
            await door("execute", terminal_id=two["terminal_id"], command="second")
            assert (first.executed, second.executed) == (
                [("terminal-1", "first")],
                [("terminal-1", "second")],
            )


@pytest.mark.promise("S3.5")
async def test_an_extension_that_names_two_terminals_alike_has_one(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url, _Namer()):
        await door("create")
        assert (await door("create", name="again"))["terminal_id"] == "terminal-1"
        (left,) = await door("terminals")
        assert (left["terminal_id"], left["terminal_name"]) == ("terminal-1", "again")


@pytest.mark.promise("S3.1")
async def test_many_extensions_each_have_their_own_terminals(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as first:
        one = await door("create", name="one")
        async with dialling(bridge.bridge_url) as second:
            two = await door("create", name="two")
            assert (list(first.terminals.values()), list(second.terminals.values())) == (["one"], ["two"])
            await asyncio.gather(
                door("execute", terminal_id=one["terminal_id"], command="in one"),
                door("execute", terminal_id=two["terminal_id"], command="in two"),
            )
            assert [first.executed[0][1], second.executed[0][1]] == ["in one", "in two"]


@pytest.mark.promise("S3.1")
async def test_it_listens_on_both_loopbacks_and_a_browser_still_gets_the_front_page(
    bridge: OutliveServer,
) -> None:
    port = bridge.ready["ports"]["bridge"]
    for host, shown in (("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("localhost", "localhost")):
        async with dialling(f"ws://{shown}:{port}") as extension:
            assert extension.connections == 1
        if host != "localhost":
            page = await asyncio.to_thread(ask, port, "GET", "/", host=host)
            assert (page.status, page.body["name"], page.body["endpoints"]["bridge"]) == (200, "outlive", "/")


@pytest.mark.promise("S3.7.missing")
async def test_without_an_extension_it_is_said_how_to_connect_one(bridge: OutliveServer, door: Door) -> None:
    refused = await door.refusal("create")
    assert refused.code == "no_terminal_host"
    assert "bridge" in refused.hint
    assert "VS Code" in refused.hint


@pytest.mark.promise("S3.6")
async def test_what_an_extension_of_the_document_cannot_do_is_said(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as extension:
        made = await door("create")
        for verb, members in (("read", {}), ("write", {"text": "y\n"}), ("resize", {})):
            refused = await door.refusal(verb, terminal_id=made["terminal_id"], **members)
            assert (refused.code, "engine" in refused.hint) == ("terminal_not_ours", True), verb
        asked: tuple[dict[str, object], ...] = (
            {"cwd": "/"},
            {"shell": "fish"},
            {"env": {"A": "b"}},
            {"profile": "open"},
            {"tags": {"a": "b"}},
        )
        for wanted in asked:
            assert (await door.refusal("create", **wanted)).code == "invalid_params", wanted
        assert [one["type"] for one in extension.received if one["type"] != "ping"] == ["create_terminal"]


@pytest.mark.promise("S3.1")
def test_the_port_can_be_chosen_or_left_out(serve: ServerFactory, tmp_path: Path) -> None:
    assert "bridge" not in serve("--bridge-port", "off").ready["ports"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        words = (
            "serve",
            "--jsonrpc-port",
            "0",
            "--mcp-port",
            "off",
            "--rest-port",
            "off",
            "--bridge-port",
            port,
        )
        refused = run_outlive(*words, state_dir=tmp_path / "refused")
    assert refused.returncode != 0
    assert f"Port {port} on 127.0.0.1 is taken" in refused.stderr
    assert "--bridge-dial ws://" in refused.stderr
    assert "--bridge-port 0" in refused.stderr


@pytest.mark.promise("S3.4")
async def test_requests_and_answers_are_logged_without_what_is_printed(own_bridge: OutliveServer) -> None:
    door = Door(own_bridge)
    async with dialling(own_bridge.bridge_url):
        made = await door("create")
        await door(
            "execute",
            terminal_id=made["terminal_id"],
            command="curl -H 'Authorization: Bearer olv_" + "a" * 43 + "'",
        )
    await poll_until(lambda: "an extension is gone" in own_bridge.stderr)
    log = own_bridge.stderr
    assert re.search(r"bridge: execute.*curl", log)
    assert re.search(r"bridge request over.*TerminalCreated", log)
    assert re.search(r"bridge request over.*Success", log)
    assert "a" * 43 not in log
    assert "Direct output capture" not in log
