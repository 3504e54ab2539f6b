"""What every route uses: `RestContext`, and how answers are written."""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from fastapi import Path
from starlette.responses import Response

from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.engine import AuditedControls, Engine, Process, ProcessRegistry
from outlive.frontends.rest.door import RestSettings
from outlive.frontends.rest.slugs import MEDIA_TYPE
from outlive.policy.access import Access, Scope
from outlive.store.output_log import OutputLog

ProcessIdPath = Annotated[
    str,
    Path(
        description="The process's permanent id.",
        pattern="^[0-7][0-9a-hjkmnp-tv-z]{25}$",
        examples=["01k9zq3v8d4t6r2m5x7b1n0c9f"],
    ),
]

_DESCRIPTIONS = {
    400: "The body is no JSON.",
    401: "A token is needed, or the one that was shown does not hold.",
    403: "The operator's rules do not allow the command, or the token's scope is too narrow for this.",
    404: "There is no such process.",
    409: "The process is not in a state in which this can be done.",
    410: "The log no longer holds this output.",
    413: "The body is too large.",
    415: "The body is not called JSON.",
    422: "A parameter makes no sense, or the command cannot be started.",
    429: "Too many requests of this principal: Retry-After says when to come back.",
    500: "Something went wrong; the answer has a reference to the server's log.",
    503: "A limit is reached, or something does not answer: `hint` says what to do, for what was asked for may run.",
    507: "The disk is full.",
}
_SCHEMA = {"schema": {"$ref": "#/components/schemas/Problem"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestContext:
    """The engine, the settings, whether the server is stopping, and who asks in the request that is being answered."""

    engine: Engine
    settings: RestSettings
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _asking: ContextVar[Access] = field(default_factory=lambda: ContextVar("rest_access"))

    @contextlib.contextmanager
    def serving(self, access: Access) -> Iterator[None]:
        """Let `access` be who asks in this task, and in what it starts, while the block runs."""
        token = self._asking.set(access)
        try:
            yield
        finally:
            self._asking.reset(token)

    @property
    def access(self) -> Access:
        """Who asks."""
        return self._asking.get()

    @property
    def registry(self) -> ProcessRegistry:
        """The processes of who asks, by request id and pid."""
        return ProcessRegistry(
            self.engine,
            principal=self.access.principal,
            termination_timeout_s=self.settings.termination_timeout_s,
            by=self.owner(),
        )

    async def find(self, process_id: str) -> Process:
        """Return a process of the caller's principal; private ones of a connection are not shown here.

        Raises:
            ProcessNotFound: There is none.
        """
        try:
            process = await self.engine.queries.find(process_id)
        except ProcessNotFound as error:
            raise _unknown(process_id) from error
        if not process.is_detached or process.record.owner.principal != self.access.principal:
            raise _unknown(process_id)
        return process

    async def log_of(self, process: Process, begin: Cursor, *, raw: bool) -> OutputLog:
        """Return a process's output as it is shown from `begin` on to who asks; `raw` hides no secrets.

        Raises:
            AccessDenied: `raw`, and who asks is no administrator, or lives in a process of ours.
            BackendUnavailable: That it was shown raw cannot be recorded.
        """
        if raw:
            await self.engine.as_(self.owner()).read_raw(process.process_id, begin)
        return process.raw_log if raw else process.log

    def owner(self, *, connection_id: str | None = None, request_id: str | None = None) -> Owner:
        """Return whose a new process is."""
        access = self.access
        return Owner(
            principal=access.principal,
            connection_id=connection_id,
            request_id=request_id,
            inside=access.inside,
            is_admin=access.scope >= Scope.ADMIN,
            door="rest",
            address=access.address,
        )

    def tell_denied(self, path: str, error: AccessDenied) -> None:
        """Tell that the caller may not do what it asked for."""
        details = {"path": path[:200]}
        self.engine.events.publish(
            AuditEvent(what="access", by=self.owner(), decision="denied", reason=error.code, details=details)
        )

    @property
    def acting(self) -> AuditedControls:
        """The verbs that change something, on the caller's behalf."""
        return self.engine.as_(self.owner())

    async def first_of(self, happening: Awaitable[object], *, within_s: float | None = None) -> bool:
        """Wait for something, until the server stops or time is up; tell whether it happened."""
        waiting = asyncio.ensure_future(happening)
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({waiting, stopping}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            return waiting.done()
        finally:
            for task in (waiting, stopping):
                task.cancel()
            await asyncio.gather(waiting, stopping, return_exceptions=True)


def _unknown(process_id: str) -> ProcessNotFound:
    text = f"There is no process {process_id[:40]!r}."
    return ProcessNotFound("process_not_found", text, hint="GET /v1/processes lists what there is.")


def json_answer(body: object, status: int = 200, **headers: str) -> Response:
    """Return an answer in JSON; underscores of header names become hyphens."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(
        orjson.dumps(body),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", **named},
    )


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what the OpenAPI document says of errors; every route may meet 401, 403, 422, 429, 500 and 503."""
    return {
        status: {"description": _DESCRIPTIONS[status], "content": {MEDIA_TYPE: _SCHEMA}}
        for status in sorted({*statuses, 401, 403, 422, 429, 500, 503})
    }
