"""What a caller may do that lives in a process of ours: `check_reach`, the one rule for every verb on a process.

A command that may do little must not get more by another one: whatever it can type into, signal or end is bound at
least as much as the process in whose tree it lives. Which processes it sees, its principal decides, not this module.
"""

import contextlib

from outlive.core.errors import CommandRefused, ProcessNotFound
from outlive.core.process import Owner, ProcessRecord
from outlive.engine.process import Process
from outlive.engine.queries import Queries

__all__ = ["check_reach", "record_inside"]

_HINT = "Act on processes of the caller's own profile or a stronger one; from outside of outlive every one can be reached."


async def record_inside(queries: Queries, process_id: str) -> ProcessRecord | None:
    """Return the process in whose tree a caller lives; of several possible ones that with the closest bounds.

    Args:
        queries: What knows processes.
        process_id: As the guard has found it; where it was removed, every live process is possible.
    """
    with contextlib.suppress(ProcessNotFound):
        return (await queries.find(process_id)).record
    records = [process.record for process in queries.live()]
    return max(records, key=lambda record: record.sandbox.profile.strength, default=None)


async def check_reach(queries: Queries, process: Process, by: Owner) -> None:
    """Let a caller act on a process; one that lives in a process of ours on none with a weaker profile.

    Raises:
        CommandRefused: `profile_too_weak`.
    """
    if by.inside is None:
        return
    home = await record_inside(queries, by.inside)
    if home is None:
        return
    has, least = process.identity_record.sandbox.profile, home.sandbox.profile
    if has.strength < least.strength:
        text = (
            f"The process's profile {has.value!r} is weaker than {least.value!r}, in which the caller runs."
        )
        raise CommandRefused("profile_too_weak", text, hint=_HINT, details={"least": least.value})
