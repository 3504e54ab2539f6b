"""What is typed into a terminal runs in that terminal's bounds: `check_bounds`, for a caller that lives in bounds itself."""

from outlive.core.errors import CommandRefused, ProcessNotFound
from outlive.core.process import Owner
from outlive.engine.engine import Engine
from outlive.engine.process import Process

__all__ = ["check_bounds"]


async def check_bounds(engine: Engine, process: Process, by: Owner) -> None:
    """Let a caller type into a terminal; one that runs in a sandbox of ours not into a weaker one (promise S3.8).

    Raises:
        CommandRefused: `profile_too_weak`.
    """
    if by.inside is None:
        return
    try:
        least = (await engine.find(by.inside)).record.sandbox.profile
    except ProcessNotFound:
        # Nobody can say which it is: then the closest bounds of all that live.
        profiles = [one.record.sandbox.profile for one in engine.live()]
        least = max(profiles, key=lambda one: one.strength, default=process.record.sandbox.profile)
    has = process.record.sandbox.profile
    if has.strength < least.strength:
        text = (
            f"The terminal's profile {has.value!r} is weaker than {least.value!r}, in which the caller runs."
        )
        raise CommandRefused("profile_too_weak", text, details={"least": least.value})
