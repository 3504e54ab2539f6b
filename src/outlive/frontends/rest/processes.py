"""/v1/processes: start, list, look, change, remove."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from outlive.core.errors import InvalidRequest
from outlive.core.identity import RANDOM_BYTES, is_process_id, new_process_id
from outlive.core.lifecycle import ENDED, NOT_ENDED, State
from outlive.engine import ProcessFilter
from outlive.frontends.rest.bodies import IdempotentStarts, describe_body, read_body
from outlive.frontends.rest.context import ProcessIdPath, RestContext, json_answer, problems
from outlive.operations.controls import Changes
from outlive.protocols.rest.answers import Acknowledgement, ProcessPage, ProcessView, process_view
from outlive.protocols.rest.requests import StartRequest

_StateName = Literal[
    "active",
    "ended",
    "queued",
    "starting",
    "running",
    "paused",
    "stopping",
    "exited",
    "signaled",
    "failed_to_start",
    "lost",
]
_StateNames = list[_StateName]  # spelled out here because inside the class `list` is the method
_TagTexts = list[Annotated[str, Query(pattern="^[^=]+=")]]
_SEVERAL = {"active": NOT_ENDED, "ended": ENDED}
_NEW = {
    "description": "It runs.",
    "headers": {"Location": {"description": "Where the process is.", "schema": {"type": "string"}}},
}
_REPLAYED = {"model": ProcessView, "description": "The Idempotency-Key has started it before."}


class ProcessRoutes:
    """The routes of processes as a resource."""

    def __init__(self, context: RestContext) -> None:
        """Answer from `context`."""
        self._context = context
        self._starts = IdempotentStarts(context)

    def add_to(self, router: APIRouter) -> None:
        """Register the routes."""
        one, many = "/processes/{process_id}", "/processes"
        router.add_api_route(
            many,
            self.start,
            methods=["POST"],
            status_code=201,
            response_model=ProcessView,
            responses={201: _NEW, 200: _REPLAYED, **problems(400, 403, 413, 415, 507)},
            openapi_extra=describe_body(StartRequest),
        )
        router.add_api_route(many, self.list, response_model=ProcessPage, responses=problems())
        router.add_api_route(one, self.get, response_model=ProcessView, responses=problems(404))
        router.add_api_route(
            one,
            self.change,
            methods=["PATCH"],
            response_model=ProcessView,
            responses=problems(400, 404, 413, 415),
            openapi_extra=describe_body(Changes),
        )
        router.add_api_route(
            one,
            self.remove,
            methods=["DELETE"],
            response_model=Acknowledgement,
            responses=problems(404, 409),
        )

    async def start(
        self,
        request: Request,
        body: Annotated[StartRequest, Depends(read_body(StartRequest))],
        *,
        idempotency_key: Annotated[
            str | None,
            Header(
                min_length=1,
                max_length=255,
                description="A word of your own for this start: sent again, it starts nothing twice.",
            ),
        ] = None,
    ) -> Response:
        """Start a command and answer once it runs. It belongs to you, not to this connection."""
        raw = await request.body()
        process, is_new = await self._starts.start(body.to_command(), idempotency_key, raw)
        location = f"/v1/processes/{process.process_id}"
        return json_answer(process_view(process.record), 201 if is_new else 200, Location=location)

    async def list(
        self,
        *,
        state: Annotated[
            _StateNames | None,
            Query(description="Only in one of these states; active and ended are several."),
        ] = None,
        tag: Annotated[
            _TagTexts | None,
            Query(description="Only with these tags, each as name=value.", examples=[["job=build"]]),
        ] = None,
        group: Annotated[str | None, Query(description="Only of this group.")] = None,
        since: Annotated[
            str | None,
            Query(
                max_length=40,
                description="Only started at this time or later; RFC 3339.",
                json_schema_extra={"format": "date-time"},
                examples=["2026-01-31T12:00:00Z"],
            ),
        ] = None,
        q: Annotated[
            str | None, Query(max_length=1000, description="Only with this in the command, in either case.")
        ] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    ) -> Response:
        """List processes, newest first, running and ended."""
        if cursor is not None and not is_process_id(cursor):
            raise InvalidRequest("invalid_cursor", "cursor: take `next` of the page before.")
        wanted = ProcessFilter(
            principal=self._context.access.principal,
            detached=True,
            # What a command has left behind runs, too.
            active=True if state == ["active"] else None,
            states=None if state is None or state == ["active"] else _states(state),
            tags=None if tag is None else dict(_pair(one) for one in tag),
            group=group,
            since=None if since is None else _first_id(since),
            text=q,
            before=cursor,
        )
        records = await self._context.engine.queries.list(wanted, limit=limit + 1)
        page = records[:limit]
        following = page[-1].process_id if len(records) > limit else None
        shown = {"processes": [process_view(record) for record in page], "next": following}
        return json_answer({**shown, **self._context.engine.disk.view()})

    async def get(self, process_id: ProcessIdPath) -> Response:
        """Describe a process."""
        process = await self._context.find(process_id)
        return json_answer(process_view(process.record))

    async def change(
        self, process_id: ProcessIdPath, body: Annotated[Changes, Depends(read_body(Changes))]
    ) -> Response:
        """Change tags and group, while it runs and afterwards."""
        process = await self._context.find(process_id)
        tags, group = body.applied(process.record.tags, process.record.group)
        await self._context.acting.relabel(process, tags=tags, group=group)
        return json_answer(process_view(process.record))

    async def remove(
        self,
        process_id: ProcessIdPath,
        *,
        force: Annotated[bool, Query(description="End it first (KILL at once) if it still runs.")] = False,
    ) -> Response:
        """Forget a finished process: record, output and folder."""
        process = await self._context.find(process_id)
        await self._context.acting.remove(process, force=force, note="Removed by request.")
        return json_answer({"process_id": process_id, "removed": True})


def _states(names: _StateNames) -> frozenset[State]:
    found: set[State] = set()
    for name in names:
        found |= _SEVERAL.get(name) or {State(name)}
    return frozenset(found)


def _pair(tag: str) -> tuple[str, str]:
    name, _, value = tag.partition("=")
    return name, value


def _first_id(text: str) -> str:
    """Return the smallest id that a process started at that time could have."""
    try:
        # In an address a plus sign that nobody has encoded arrives as a space.
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or "T" not in text.upper():
        raise InvalidRequest("invalid_params", f"since: {text!r} is no time as in 2026-01-31T12:00:00Z.")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return new_process_id(max(0, (moment - epoch) // timedelta(microseconds=1)) * 1000, bytes(RANDOM_BYTES))
