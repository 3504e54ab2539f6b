"""Signals by name or number, as callers write them."""

import signal

from outlive.core.errors import InvalidRequest


def signal_number(wanted: int | str) -> int:
    """Return the number of a signal: 2, "INT" or "SIGINT", in either case.

    Raises:
        InvalidRequest: This system has no such signal.
    """
    name = str(wanted).upper()
    number = next(
        (known for known in signal.valid_signals() if known == wanted),
        signal.Signals.__members__.get(name if name.startswith("SIG") else f"SIG{name}"),
    )
    if number is None:
        text = f"signal: {str(wanted)[:40]!r} is no signal of this system."
        raise InvalidRequest("invalid_params", text, hint="For example INT, HUP, USR1.")
    return int(number)
