"""/v1/terminals: list, open, look, run a command, read, type, resize, close (promise S3.6)."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import Response

from outlive.core.errors import BackendUnavailable
from outlive.core.terminal import Form
from outlive.frontends.rest.bodies import describe_body, read_body
from outlive.frontends.rest.context import RestContext, json_answer, problems
from outlive.operations.controls import Resize
from outlive.protocols.rest.terminals import (
    ClosedTerminal,
    ExecutedView,
    ResizedTerminal,
    TerminalPage,
    TerminalTextView,
    TerminalView,
    TypedView,
)
from outlive.protocols.terminal import requests
from outlive.protocols.terminal.requests import ExecuteRequest, InputRequest, NewTerminalRequest
from outlive.server.terminal_calls import TerminalCalls

_NEW = {
    "description": "It shows its prompt.",
    "headers": {"Location": {"description": "Where the terminal is.", "schema": {"type": "string"}}},
}
_Shape = TypeVar("_Shape", bound=msgspec.Struct)
_TerminalId = Annotated[str, Path(min_length=1, max_length=200, description="The terminal's id.")]


def _addressed(shape: type[_Shape], body: msgspec.Struct, **address: str) -> _Shape:
    """Return a body as all doors have it, with the terminal that the path names."""
    return shape(**msgspec.structs.asdict(body), **address)


class TerminalRoutes:
    """The routes of terminals; each makes one call of `TerminalCalls`."""

    def __init__(self, context: RestContext, calls: TerminalCalls) -> None:
        """Answer who asks in `context` by `calls`."""
        self._context = context
        self._calls = calls

    def add_to(self, router: APIRouter) -> None:
        """Register the routes."""
        many, one = "/terminals", "/terminals/{terminal_id}"
        bodies = (400, 403, 404, 409, 413, 415)
        add = router.add_api_route
        add(many, self.list, response_model=TerminalPage, responses=problems())
        add(
            many,
            self.create,
            methods=["POST"],
            status_code=201,
            response_model=TerminalView,
            responses={201: _NEW, **problems(*bodies, 507)},
            openapi_extra=describe_body(NewTerminalRequest),
        )
        add(one, self.get, response_model=TerminalView, responses=problems(404))
        add(one, self.close, methods=["DELETE"], response_model=ClosedTerminal, responses=problems(404, 409))
        add(f"{one}/output", self.read, response_model=TerminalTextView, responses=problems(404, 409))
        for path, verb, shape, model in (
            ("execute", self.execute, ExecuteRequest, ExecutedView),
            ("input", self.write, InputRequest, TypedView),
            ("resize", self.resize, Resize, ResizedTerminal),
        ):
            add(
                f"{one}/{path}",
                verb,
                methods=["POST"],
                response_model=model,
                responses=problems(*bodies),
                openapi_extra=describe_body(shape),
            )

    async def list(self) -> Response:
        """List the open terminals."""
        return json_answer(await self._calls.list(requests.ListTerminals(), self._context.owner()))

    async def create(
        self, body: Annotated[NewTerminalRequest, Depends(read_body(NewTerminalRequest))]
    ) -> Response:
        """Open a terminal and answer when it can be used."""
        wanted = _addressed(requests.CreateTerminal, body)
        members = await self._answer(self._calls.create(wanted, self._context.owner()))
        return json_answer(members, 201, Location=f"/v1/terminals/{members['terminal_id']}")

    async def get(self, terminal_id: _TerminalId) -> Response:
        """Describe a terminal."""
        return json_answer(await self._calls.get(terminal_id, self._context.owner()))

    async def execute(
        self, terminal_id: _TerminalId, body: Annotated[ExecuteRequest, Depends(read_body(ExecuteRequest))]
    ) -> Response:
        """Run a command at the prompt and answer with its output and exit code, or that it still runs."""
        wanted = _addressed(requests.ExecuteInTerminal, body, terminal_id=terminal_id)
        return json_answer(await self._answer(self._calls.execute(wanted, self._context.owner())))

    async def read(
        self,
        terminal_id: _TerminalId,
        *,
        form: Annotated[
            Form, Query(description="As it came, as plain text, or what a person sees now.")
        ] = "clean",
        cursor: Annotated[
            str | None, Query(description="Where to go on; the newest output if left out.")
        ] = None,
        budget: Annotated[
            int, Query(ge=100, le=1_000_000, description="Most characters.")
        ] = requests.DEFAULT_BUDGET,
    ) -> Response:
        """Return what a terminal shows, open or closed."""
        wanted = requests.ReadTerminal(terminal_id=terminal_id, form=form, cursor=cursor, budget=budget)
        return json_answer(await self._calls.read(wanted, self._context.owner()))

    async def write(
        self, terminal_id: _TerminalId, body: Annotated[InputRequest, Depends(read_body(InputRequest))]
    ) -> Response:
        """Type into a terminal, whatever runs there."""
        wanted = _addressed(requests.WriteToTerminal, body, terminal_id=terminal_id)
        return json_answer(await self._calls.write(wanted, self._context.owner()))

    async def resize(
        self, terminal_id: _TerminalId, body: Annotated[Resize, Depends(read_body(Resize))]
    ) -> Response:
        """Set a terminal's size."""
        wanted = _addressed(requests.ResizeTerminal, body, terminal_id=terminal_id)
        return json_answer(await self._calls.resize(wanted, self._context.owner()))

    async def close(self, terminal_id: _TerminalId) -> Response:
        """Close a terminal: its shell and what runs in it end."""
        return json_answer(
            await self._calls.close(requests.CloseTerminal(terminal_id=terminal_id), self._context.owner())
        )

    async def _answer(self, call: Coroutine[None, None, dict[str, object]]) -> dict[str, object]:
        """Return what a call gives that may take long.

        Raises:
            BackendUnavailable: `server_lost`: the server stops meanwhile; what the call has begun goes on.
        """
        running = asyncio.ensure_future(call)
        if await self._context.first_of(running):
            return running.result()
        raise BackendUnavailable("server_lost", "The server stops; what runs in the terminal goes on.")
