"""Approvals as the client sees them: what waits for a person, and that person's answer."""

from outlive.client.link import Link
from outlive.client.messages import read_approval, read_info
from outlive.client.results import PendingApproval, ProcessInfo


class AsyncApprovals:
    """One part of `AsyncClient`."""

    _link: Link

    async def approvals(self, *, raw: bool = False) -> list[PendingApproval]:
        """Return what waits for an approval, oldest first, whoever asked; `raw` hides no secrets in the words.

        Raises:
            AccessDenied: `scope_missing`: this needs the scope `admin`.
        """
        result = await self._link.request("approvals", {"raw": raw})
        return [read_approval(view) for view in result["approvals"]]

    async def approve(self, process_id: str, digest: str) -> ProcessInfo:
        """Let a process start that waits for an approval, if it is what was looked at: `PendingApproval.digest`.

        Raises:
            AccessDenied: `scope_missing`: this needs the scope `admin`, and nothing that was started here may do it.
            InvalidState: `approval_settled`: it does not wait (any more). `approval_changed`: it is something else.
            ProcessNotFound: There is none.
        """
        params = {"process_id": process_id, "digest": digest}
        return read_info(await self._link.request("approve", params, is_repeatable=False))

    async def deny(self, process_id: str, reason: str = "") -> ProcessInfo:
        """End a process that waits for an approval; it never runs, and `reason` is what its caller reads.

        Raises:
            AccessDenied, InvalidState, ProcessNotFound: As `approve`.
        """
        params = {"process_id": process_id, "reason": reason}
        return read_info(await self._link.request("deny", params, is_repeatable=False))
