"""How many processes one principal may have at a time: `check_headcount`."""

from collections.abc import Collection

from outlive.core.errors import LimitExceeded
from outlive.engine.process import Process


def check_headcount(live: Collection[Process], most: int | None) -> None:
    """Let a principal that has `live` start one more process, or wait for its turn.

    They are counted only when there are as many: that costs a start nothing until then.

    Raises:
        LimitExceeded: `process_limit`: `most` of them run or wait already.
    """
    if most is None or len(live) < most:
        return
    count = sum(not one.is_ended for one in live)
    if count >= most:
        raise LimitExceeded(
            "process_limit",
            f"{count} processes of this principal run or wait already, and no more than {most} may.",
            hint="Wait until some end, cancel some, or raise --max-processes.",
            details={"processes": count, "limit": most},
        )
