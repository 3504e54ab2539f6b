"""What waits for a person's approval, as every door shows it: `pending_approvals`."""

from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.policy.access import Access
from outlive.policy.approver import approver_of
from outlive.protocols.jsonrpc.views import approval_view


async def pending_approvals(
    engine: Engine, access: Access, by: Owner, *, raw: bool
) -> list[dict[str, object]]:
    """Return what waits, oldest first; with `raw` with secrets and values of variables.

    Raises:
        AccessDenied: `scope_missing`: what was started here sees no secrets of what waits.
        BackendUnavailable: `audit_unavailable`: that it was shown raw cannot be recorded.
    """
    if raw:
        approver_of(access)
        await engine.read_raw(by, None)
    return [
        approval_view(
            one.record,
            digest=one.digest,
            argv=one.argv,
            script=one.script,
            script_bytes=one.script_bytes,
            env=one.env,
            redacted=one.redacted,
        )
        for one in engine.approvals(raw=raw)
    ]
