"""What a node says of its processes, taken over within bounds."""

from collections.abc import Mapping
from typing import Any

import pytest

from outlive.core.errors import ProtocolViolation
from outlive.engine import Engine
from outlive.extensions.fleet.adoption import Adoption
from outlive.extensions.fleet.routes import FleetRoutes
from tests.engine.engines import ME

_WAITS: dict[str, object] = {
    "command": "true",
    "shell": None,
    "cwd": "/",
    "pid": None,
    "stdio": "pipes",
    "stdin": "none",
    "created_at": "2026-01-31T12:00:00Z",
    "started_at": None,
    "detached": True,
    "timeout": None,
    "grace": 10.0,
    "tags": {},
}


class _Listing(FleetRoutes):
    """A node that answers each question for a page with the same processes."""

    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    async def ask(self, name: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert (name, method, params["limit"]) == ("far", "list", 500)
        return {"processes": [{**_WAITS, "process_id": one} for one in self._ids]}


def _adoption(engine: Engine, ids: list[str]) -> Adoption:
    return Adoption(engine.settings, _Listing(ids), names=engine.names, queries=engine.queries)


async def test_what_waits_there_is_left_to_the_server_that_let_it_wait(engine: Engine) -> None:
    assert await _adoption(engine, ["0" * 26]).adopt("far", ended=False, by=ME) == []


@pytest.mark.parametrize("ids", [["0" * 26] * 500, ["../../../etc"], ["0" * 25]])
async def test_a_list_that_does_not_go_on_and_ids_that_are_none_are_refused(
    engine: Engine, ids: list[str]
) -> None:
    with pytest.raises(ProtocolViolation, match="makes no sense"):
        await _adoption(engine, ids).adopt("far", ended=True, by=ME)
