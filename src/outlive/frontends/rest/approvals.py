"""/v1/approvals: what waits for a person's approval, and the answer. For callers with the scope `admin`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from outlive.frontends.rest.bodies import describe_body, read_body
from outlive.frontends.rest.context import ProcessIdPath, RestContext, json_answer, problems
from outlive.operations.controls import Approving, Denial
from outlive.policy.access import approver_of
from outlive.protocols.rest.answers import Approvals, ProcessView, process_view
from outlive.server.terminal_calls import pending_approvals

_Raw = Annotated[bool, Query(description="Hide no secrets in the words, and no values of variables.")]


class ApprovalRoutes:
    """The routes of approvals."""

    def __init__(self, context: RestContext) -> None:
        """Answer from `context`."""
        self._context = context

    def add_to(self, router: APIRouter) -> None:
        """Register the routes."""
        one = "/approvals/{process_id}"
        router.add_api_route("/approvals", self.approvals, response_model=Approvals, responses=problems(403))
        router.add_api_route(
            f"{one}/approve",
            self.approve,
            methods=["POST"],
            response_model=ProcessView,
            responses=problems(400, 403, 404, 409, 413, 415, 507),
            openapi_extra=describe_body(Approving),
        )
        router.add_api_route(
            f"{one}/deny",
            self.deny,
            methods=["POST"],
            response_model=ProcessView,
            responses=problems(400, 403, 404, 409, 413, 415),
            openapi_extra=describe_body(Denial),
        )

    async def approvals(self, *, raw: _Raw = False) -> Response:
        """List what waits for an approval, oldest first, whoever asked."""
        context = self._context
        shown = await pending_approvals(context.engine, context.access, context.owner(), raw=raw)
        return json_answer({"approvals": shown})

    async def approve(
        self, process_id: ProcessIdPath, body: Annotated[Approving, Depends(read_body(Approving))]
    ) -> Response:
        """Let a process start that waits for an approval, if it is what was looked at."""
        by = approver_of(self._context.access)
        process = await self._context.engine.queries.find(process_id)
        await self._context.engine.approvals.approve(process, digest=body.digest, by=by)
        return json_answer(process_view(process.record))

    async def deny(
        self, process_id: ProcessIdPath, body: Annotated[Denial, Depends(read_body(Denial))]
    ) -> Response:
        """End a process that waits for an approval; it never runs."""
        by = approver_of(self._context.access)
        process = await self._context.engine.queries.find(process_id)
        await self._context.engine.approvals.deny(process, by=by, reason=body.reason)
        return json_answer(process_view(process.record))
