"""The command `outlive`, whose `serve` offers the terminals at a door of the tests' own: POST
/test/terminals.

    python -m tests.extensions.bridge.serve serve

Everything but the added route is what `outlive serve` runs. The route is behind the guard like any other, and
acts for whom the guard has let in. Body: {"verb": name of a method of `Terminals` or `TerminalHost`, …}.
"""

import dataclasses
import os
from typing import Any
from unittest.mock import patch

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from outlive.app import Application
from outlive.cli import main
from outlive.cli.server import server_process as running
from outlive.core.errors import OutliveError
from outlive.core.terminal import ENGINE
from outlive.engine.terminals import NewTerminal, Terminals
from outlive.server.access.guard import access_of

PATH = "/test/terminals"


class _WithDoor(Application):
    """The same application with one more route."""

    def __init__(self, *parts: Any, **named: Any) -> None:  # noqa: ANN401 -- passed on as they are
        super().__init__(*parts, **named)
        if os.environ.get("OUTLIVE_TEST_NO_ENGINE_TERMINALS"):
            self.terminals.remove(self.terminals.host(ENGINE))

    def _all_routes(self) -> list[BaseRoute]:
        return [*super()._all_routes(), Route(PATH, self._act, methods=["POST"])]

    async def _act(self, request: Request) -> Response:
        asked: dict[str, Any] = await request.json()
        try:
            return JSONResponse({"result": await _do(self.terminals, request, asked)})
        except OutliveError as error:
            told = {"error": error.code, "message": error.message, "hint": error.hint}
            return JSONResponse(told, status_code=400)


async def _do(terminals: Terminals, request: Request, asked: dict[str, Any]) -> object:
    by = access_of(request.scope).owner("bridge")
    verb = asked.pop("verb")
    if verb == "terminals":
        return [dataclasses.asdict(one) for one in await terminals.terminals(by)]
    if verb == "create":
        host = terminals.host(asked.pop("target", "vscode"))
        return dataclasses.asdict(await host.create(NewTerminal(**asked), by))
    terminal_id = asked.pop("terminal_id")
    host = (await terminals.find(terminal_id, by))[0] if asked.pop("find", True) else terminals.host("vscode")
    if verb == "execute":
        done = await host.execute(terminal_id, asked["command"], by, wait_s=asked.get("wait_s", 20.0))
        return dataclasses.asdict(done)
    if verb == "read":
        return dataclasses.asdict(await host.read(terminal_id, by, budget=1000))
    if verb == "write":
        await host.write(terminal_id, asked["text"].encode(), by)
    elif verb == "resize":
        await host.resize(terminal_id, 30, 100, by)
    else:
        assert verb == "close"
        await host.close(terminal_id, by)
    return None


if __name__ == "__main__":
    # No mock: the same class with a door more.
    with patch.object(running, "Application", _WithDoor):
        main.main()
