"""A caller that may only look, at the door without a server."""

from pathlib import Path

import pytest

from outlive.policy.access import Scope
from tests.frontends.jsonrpc.playing import PlayedEngine, opened

pytestmark = pytest.mark.anyio


@pytest.mark.promise("A.scope")
async def test_who_may_only_read_starts_and_ends_nothing(tmp_path: Path) -> None:
    async with opened(PlayedEngine(tmp_path)) as house, house.client() as client:
        shared = await client.execute(detach=True)
        async with house.client(allowed=Scope.READ) as reader:
            assert (await reader.ask("get", process_id=shared))["result"]["process_id"] == shared
            for method, params in (
                ("execute", {"command": "date"}),
                ("control", {"type": "CANCEL", "process_id": shared}),
                ("write", {"data": "x", "process_id": shared}),
                ("remove", {"process_id": shared}),
            ):
                error = (await reader.ask(method, **params))["error"]
                assert error["data"]["reason"] == "scope_missing"
                assert (error["data"]["needed"], error["data"]["given"]) == ("run", "read")
        assert [call for call, _ in house.engine.calls] == ["start"]
        assert [(deed.what, deed.reason) for deed in house.engine.announced] == [
            ("access", "scope_missing")
        ] * 4
