"""Terminals in VS Code through the tools themselves, from every door (promise S3.6)."""

import pytest

from tests.extensions.bridge.extension import dialling
from tests.support.server import OutliveServer
from tests.terminals.doors import DOORS, Refused, caller_of

pytestmark = pytest.mark.anyio


@pytest.mark.thorough
@pytest.mark.promise("S3.6", "S3.7.missing", "S3.5")
async def test_every_door_opens_uses_and_closes_terminals_in_vs_code(bridge: OutliveServer) -> None:
    for door in DOORS:
        caller = caller_of(door, bridge)
        with pytest.raises(Refused, match="bridge port"):
            await caller.call("create", target="vscode")
        async with dialling(bridge.bridge_url) as extension:
            made = await caller.call("create", target="vscode", terminal_name=f"by {door}")
            terminal_id = made["terminal_id"]
            assert (made["target"], made["terminal_name"]) == ("vscode", f"by {door}")
            assert extension.terminals == {terminal_id: f"by {door}"}
            listed = (await caller.call("list"))["terminals"]
            assert terminal_id in {one["terminal_id"] for one in listed}
            gave = await caller.run(terminal_id, "npm run build")
            assert gave["output"].startswith("Command executed: npm run build")
            assert (gave["exit_code"], gave["cursor"], gave["is_complete"]) == (None, None, True)
            with pytest.raises(Refused, match="VS Code's own"):
                await caller.call("read", terminal_id=terminal_id)
            await caller.call("close", terminal_id=terminal_id)
            assert extension.terminals == {}
            with pytest.raises(Refused, match="no terminal"):
                await caller.run(terminal_id, "date")
            assert extension.executed == [(terminal_id, "npm run build")]


@pytest.mark.promise("S3.6.active", "S3.5")
async def test_a_command_without_a_terminal_is_typed_into_the_active_one_in_vs_code(
    bridge: OutliveServer,
) -> None:
    caller = caller_of("jsonrpc", bridge)
    async with dialling(bridge.bridge_url) as extension:
        first = (await caller.call("create", target="vscode"))["terminal_id"]
        second = (await caller.call("create", target="vscode"))["terminal_id"]
        assert (await caller.call("execute", command="make"))["terminal_id"] == second
        await caller.run(first, "date")
        assert (await caller.call("execute", command="make test"))["terminal_id"] == first
        assert extension.executed == [(second, "make"), (first, "date"), (first, "make test")]
