"""The methods of approvals: approvals, approve, deny. For callers with the scope `admin` from outside of our trees."""

from outlive.frontends.jsonrpc.context import Context, Result
from outlive.policy.approver import approver_of
from outlive.protocols.jsonrpc.params import ApprovalsParams, ApproveParams, DenyParams
from outlive.protocols.jsonrpc.views import process_view
from outlive.server.views.pending_approvals import pending_approvals


async def approvals(context: Context, params: ApprovalsParams, _label: str | None) -> Result:
    """List what waits for an approval, oldest first, whoever asked."""
    waiting = await pending_approvals(context.engine, context.access, context.owner(), raw=params.raw)
    return Result(result={"approvals": waiting})


async def approve(context: Context, params: ApproveParams, _label: str | None) -> Result:
    """Let a process start that waits for an approval, if it is what the caller has looked at."""
    by = approver_of(context.access)
    process = await context.engine.find(params.process_id)
    await context.engine.approve(process, digest=params.digest, by=by)
    return Result(result=process_view(process.record))


async def deny(context: Context, params: DenyParams, _label: str | None) -> Result:
    """End a process that waits for an approval; it never runs."""
    by = approver_of(context.access)
    process = await context.engine.find(params.process_id)
    await context.engine.deny(process, by=by, reason=params.reason)
    return Result(result=process_view(process.record))
