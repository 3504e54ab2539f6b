"""Who may answer what policy asks a person about: `approver_of`. Pure.

Not the command itself: a caller within a process tree of ours may not, whatever its token allows.
"""

from outlive.core.errors import AccessDenied
from outlive.policy.access import Access, Scope


def approver_of(access: Access) -> str:
    """Return who approves or denies, for the record.

    Raises:
        AccessDenied: `scope_missing`: the scope `admin` is needed, and from outside of what we have started.
    """
    access.require(Scope.ADMIN)
    if access.inside is not None:
        raise AccessDenied(
            "scope_missing",
            "What was started here cannot approve anything, nor see the secrets of what waits.",
            hint="A person approves from a terminal of his own: `outlive approve`.",
            details={"inside": access.inside},
        )
    return f"{access.principal} ({access.address})" if access.address else access.principal
