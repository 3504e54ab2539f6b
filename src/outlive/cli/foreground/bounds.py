"""What `--limit` says, as the server takes it. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence

from outlive.core.errors import InvalidRequest

_EXAMPLES = "cpu=10m, cpus=1.5, memory=2G, files=256, processes=50"


def parse_limits(words: Sequence[str]) -> Mapping[str, float]:
    """Return bounds by their names from "memory=2G" and the like; of a name given twice the last one counts.

    Sizes are bytes, times whole seconds (rounded up).

    Raises:
        InvalidRequest: A word is not of that form, its name is not known, or its value is none.
    """
    if not words:
        return {}
    readers = _readers()
    found: dict[str, float] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in readers:
            text = f"--limit {word[:60]!r}: a limit is NAME=VALUE, and the names are {', '.join(readers)}."
            raise InvalidRequest("invalid_params", text, hint=f"For instance {_EXAMPLES}.")
        try:
            found[name] = readers[name](value)
        except ValueError as error:
            text = f"--limit {word[:60]!r}: {error}."
            raise InvalidRequest("invalid_params", text, hint=f"For instance {_EXAMPLES}.") from None
    return found


def _readers() -> Mapping[str, Callable[[str], float]]:
    # Start-up time: most commands are run without limits, and the parsers come with all of the configuration.
    from outlive.config import values  # noqa: PLC0415

    def whole_seconds(text: str) -> float:
        if (seconds := values.parse_seconds_bound(text)) is None:
            raise ValueError("what is not to be bounded is left out")
        return math.ceil(seconds)

    return {
        "cpu": whole_seconds,
        "cpus": values.parse_cpus,
        "memory": values.parse_size,
        "files": values.parse_count,
        "processes": values.parse_count,
    }
