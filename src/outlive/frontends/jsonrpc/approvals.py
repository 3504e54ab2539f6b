"""The methods of approvals: approvals, approve, deny. For callers with the scope `admin` from outside of our trees."""

from outlive.frontends.jsonrpc.context import Context, Reply
from outlive.policy.approver import approver_of
from outlive.protocols.jsonrpc.params import ApprovalsParams, DenyParams, ProcessIdParams
from outlive.protocols.jsonrpc.views import approval_view, process_view

__all__ = ["approvals", "approve", "deny"]


async def approvals(context: Context, params: ApprovalsParams, _label: str | None) -> Reply:
    """List what waits for an approval, oldest first, whoever asked."""
    waiting = [
        approval_view(one.record, argv=one.argv, script=one.script)
        for one in context.engine.approvals(raw=params.raw)
    ]
    return Reply(result={"approvals": waiting})


async def approve(context: Context, params: ProcessIdParams, _label: str | None) -> Reply:
    """Let a process start that waits for an approval."""
    by = approver_of(context.access)
    process = await context.engine.find(params.process_id)
    await context.engine.approve(process, by=by)
    return Reply(result=process_view(process.record))


async def deny(context: Context, params: DenyParams, _label: str | None) -> Reply:
    """End a process that waits for an approval; it never runs."""
    by = approver_of(context.access)
    process = await context.engine.find(params.process_id)
    await context.engine.deny(process, by=by, reason=params.reason)
    return Reply(result=process_view(process.record))
