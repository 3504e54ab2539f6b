"""/v1/processes/{process_id}/…: control, signal, stdin, resize, wait."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from outlive.core.lifecycle import signal_number
from outlive.engine import Process
from outlive.frontends.rest.bodies import describe_body, read_body
from outlive.frontends.rest.context import ProcessIdPath, RestContext, json_answer, problems
from outlive.operations.controls import ControlRequest, Resize, SignalRequest
from outlive.protocols.rest.answers import ProcessView, Waited, Written, process_view

_BYTES = {
    "requestBody": {
        "description": "The bytes themselves, whatever type they claim to be.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class VerbRoutes:
    """The routes of what can be done to a process."""

    def __init__(self, context: RestContext) -> None:
        """Answer from `context`."""
        self._context = context

    def add_to(self, router: APIRouter) -> None:
        """Register the routes."""
        one = "/processes/{process_id}"
        for path, verb, shape in (
            ("control", self.control, ControlRequest),
            ("signal", self.signal, SignalRequest),
            ("resize", self.resize, Resize),
        ):
            router.add_api_route(
                f"{one}/{path}",
                verb,
                methods=["POST"],
                response_model=ProcessView,
                responses=problems(400, 404, 409, 413, 415),
                openapi_extra=describe_body(shape),
            )
        router.add_api_route(
            f"{one}/stdin",
            self.write,
            methods=["POST"],
            response_model=Written,
            responses=problems(404, 409, 413),
            openapi_extra=_BYTES,
        )
        router.add_api_route(f"{one}/wait", self.wait, response_model=Waited, responses=problems(404))

    async def control(
        self, process_id: ProcessIdPath, body: Annotated[ControlRequest, Depends(read_body(ControlRequest))]
    ) -> Response:
        """Pause, resume or cancel the whole tree. Repeating it is a success; a cancel is answered before the end."""
        acting = self._context.acting
        process = await self._context.find(process_id)
        match body.action:
            case "pause":
                await acting.pause(process)
            case "resume":
                await acting.resume(process)
            case "cancel":
                await acting.cancel(process, grace_s=body.grace, note="Cancelled by request.")
        return _shown(process)

    async def signal(
        self, process_id: ProcessIdPath, body: Annotated[SignalRequest, Depends(read_body(SignalRequest))]
    ) -> Response:
        """Send a signal to the main process, or to its whole tree."""
        number = signal_number(body.signal)
        process = await self._context.find(process_id)
        await self._context.acting.signal(process, number, whole_tree=body.whole_tree)
        return _shown(process)

    async def resize(
        self, process_id: ProcessIdPath, body: Annotated[Resize, Depends(read_body(Resize))]
    ) -> Response:
        """Set the terminal's window size."""
        process = await self._context.find(process_id)
        await self._context.acting.resize(process, body.rows, body.cols)
        return _shown(process)

    async def write(
        self,
        request: Request,
        process_id: ProcessIdPath,
        *,
        eof: Annotated[bool, Query(description="Close the input behind these bytes.")] = False,
    ) -> Response:
        """Write the body to the process's input while it comes; answered when all of it is in the pipe or terminal.

        A body of any length: no more of it is held than one piece, and a process that does not read makes the sender wait.
        """
        process = await self._context.find(process_id)
        body = aiter(request.stream())
        first = await anext(body, b"")
        written = 0
        if first or not eof:
            written = await self._context.acting.write(process, _behind(first, body))
        if eof:
            await self._context.acting.close_stdin(process)
        return json_answer({"written": written, "eof": eof})

    async def wait(
        self,
        process_id: ProcessIdPath,
        *,
        timeout: Annotated[  # noqa: ASYNC109 -- the caller's patience is a parameter of the request
            float, Query(ge=0, le=3600, description="Answer after this many seconds in any case.")
        ] = 45.0,
        until: Annotated[
            Literal["complete", "closed"],
            Query(description="Closed: nothing that it left running can write to its streams, either."),
        ] = "complete",
    ) -> Response:
        """Answer when the process has ended, or as it is after `timeout`: still running is no error."""
        process = await self._context.find(process_id)
        over = self._context.engine.queries.wait(process, until=until)
        is_over = await self._context.first_of(over, within_s=timeout)
        return json_answer({**process_view(process.record), "timed_out": not is_over})


def _shown(process: Process) -> Response:
    return json_answer(process_view(process.record))


async def _behind(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield `first`, then `rest` but for the empty piece that ends a body."""
    yield first
    async for piece in rest:
        if piece:
            yield piece
