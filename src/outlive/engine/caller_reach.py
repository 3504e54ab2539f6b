"""What a caller may do that lives in a process of ours: `check_reach`, the one rule for every verb, and what goes with it.

A command that may do little must not get more by another one: whatever it can type into, signal or end is bound at
least as much as the process in whose tree it lives. Which processes it sees, its principal decides, not this module.
"""

import contextlib

from outlive.core.command import Profile
from outlive.core.errors import AccessDenied, CommandRefused, ProcessNotFound
from outlive.core.process import Owner, ProcessRecord
from outlive.engine.processes.process import Process
from outlive.engine.queries import Queries

_HINT = "Act on processes of the caller's own profile or a stronger one; from outside of outlive every one can be reached."


def check_raw(by: Owner) -> None:
    """Let a caller see secrets: with the scope admin, and never one that lives in a process of ours.

    Raises:
        AccessDenied: `scope_missing`.
    """
    if by.inside is not None:
        text = "What was started here sees no secrets, whatever its token allows."
        hint = "Ask from outside of what outlive runs; without raw the answer comes with secrets hidden."
        raise AccessDenied("scope_missing", text, hint=hint, details={"inside": by.inside})
    if not by.is_admin:
        raise AccessDenied(
            "scope_missing",
            "Secrets are shown to callers with the scope 'admin' only.",
            hint="Show a token with that scope (`outlive token create --scope admin`), or ask without raw.",
            details={"needed": "admin"},
        )


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
    await _compare(queries, "The process's profile", process.identity_record.sandbox.profile, by)


async def check_request(queries: Queries, made_by: Owner, by: Owner) -> None:
    """Let a caller cancel a request of which no process is known yet: it may be about to start one.

    What it starts may have any profile that its own caller may have.

    Raises:
        CommandRefused: `profile_too_weak`.
    """
    if by.inside is None or by.inside == made_by.inside:
        return
    maker = None if made_by.inside is None else await record_inside(queries, made_by.inside)
    has = Profile.OPEN if maker is None else maker.sandbox.profile
    await _compare(queries, "The request's profile", has, by)


async def _compare(queries: Queries, what: str, has: Profile, by: Owner) -> None:
    if by.inside is None:
        return
    home = await record_inside(queries, by.inside)
    if home is None:
        return
    least = home.sandbox.profile
    if has.strength < least.strength:
        text = f"{what} {has.value!r} is weaker than {least.value!r}, in which the caller runs."
        raise CommandRefused("profile_too_weak", text, hint=_HINT, details={"least": least.value})
